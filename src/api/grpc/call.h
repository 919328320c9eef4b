// A gRPC call of whatever method, as bytes in and bytes out: messages are sent from where their
// tensors lie. docs/adr/0011-one-thread-polls-grpc.md says why it is not gRPC's callback interface.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "api/control/send_times.h"

namespace grpc {
class ByteBuffer;
class ServerContext;
class Status;
}  // namespace grpc

namespace gradus::api {

/// Ends when nobody holds it, and must be finished by then. Everything may be called from any
/// thread; what was given to be called is called once, by a thread that call_queue.h tells of, and
/// never under a lock.
class Call {
 public:
  virtual ~Call() = default;

  virtual const std::string& method() const = 0;           // `/package.Service/Method`
  virtual const grpc::ServerContext& context() const = 0;  // deadline, metadata, peer

  /// The client's next message; null: there is none any more. One at a time.
  /// @param done may take the message's bytes
  virtual void read(std::function<void(grpc::ByteBuffer* message)> done) = 0;

  /// One at a time, and none once finished. @param done with false: nobody takes it any more
  virtual void write(grpc::ByteBuffer&& message, std::function<void(bool sent)> done) = 0;

  /// Metadata behind the last message; before finish(). One thread.
  virtual void add_trailer(const std::string& name, const std::string& value) = 0;

  /// Of the next message, or of the status that ends the call; before write() or finish(), whose
  /// thread it is. Filled in when gRPC gets it, and when its transport has taken it; then let go.
  virtual void time_sending(std::shared_ptr<SendTimes> times) = 0;

  /// The first time counts.
  virtual void finish(const grpc::Status& status) = 0;
  virtual void finish(grpc::ByteBuffer&& last) = 0;  // with a last message, and OK

  /// The client has gone or has changed its mind, its deadline or the server's patience is over;
  /// called at once if so already, never for a call that is finished in time.
  virtual void when_cancelled(std::function<void()> call) = 0;
};

/// The message of a call that has one; a call without is refused.
void read_request(const std::shared_ptr<Call>& call,
                  std::function<void(grpc::ByteBuffer& message)> done);

}  // namespace gradus::api
