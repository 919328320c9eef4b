// A gRPC call of whatever method, as bytes in and bytes out: messages are sent from where their
// tensors lie. docs/adr/0011-one-thread-polls-grpc.md says why it is not gRPC's callback interface.
#pragma once
#include "base/mutex.h"  // first: Abseil, under gRPC, has macros of the same names

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace gradus::api {

class CallQueue;

/// Ends when nobody holds it, and must be finished by then. Everything may be called from any
/// thread; what was given to be called is called once, by a thread of the queue or of its `aside`,
/// and never under a lock.
class Call : public std::enable_shared_from_this<Call> {
 public:
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const std::string& method() const { return context_.method(); }  // `/package.Service/Method`
  const grpc::ServerContext& context() const { return context_; }  // deadline, metadata, peer

  /// The client's next message; null: there is none any more. One at a time.
  /// @param done may take the message's bytes
  void read(std::function<void(grpc::ByteBuffer* message)> done);

  /// One at a time, and none once finished. @param done with false: nobody takes it any more
  void write(grpc::ByteBuffer&& message, std::function<void(bool sent)> done);

  /// Metadata behind the last message; before finish(). One thread.
  void add_trailer(const std::string& name, const std::string& value);

  /// The first time counts.
  void finish(grpc::Status status);
  void finish(grpc::ByteBuffer&& last);  // with a last message, and OK

  /// The client has gone or has changed its mind, its deadline or the server's patience is over;
  /// called at once if so already, never for a call that is finished in time.
  void when_cancelled(std::function<void()> call);

 private:
  friend class CallQueue;

  // What gRPC hands back when something has happened. It keeps the call alive meanwhile.
  struct Event {
    void (Call::*happened)(bool ok);
    std::shared_ptr<Call> call = nullptr;
  };

  explicit Call(CallQueue& queue);
  void wait_for_client();
  void* begin(Event& event);
  void on_accepted(bool ok);
  void on_read(bool ok);
  void on_written(bool ok);
  void on_finished(bool) {}
  void on_done(bool);

  CallQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  Event accepted_{&Call::on_accepted};
  Event read_{&Call::on_read};
  Event written_{&Call::on_written};
  Event finished_{&Call::on_finished};
  Event done_{&Call::on_done};
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::function<void(grpc::ByteBuffer*)> when_read_;
  std::function<void(bool)> when_written_;
  std::atomic<bool> over_{false};  // finish() was called

  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::function<void()> when_cancelled_ GUARDED_BY(mutex_);
};

/// The message of a call that has one; a call without is refused.
void read_request(const std::shared_ptr<Call>& call,
                  std::function<void(grpc::ByteBuffer& message)> done);

}  // namespace gradus::api
