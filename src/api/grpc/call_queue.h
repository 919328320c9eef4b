// The threads that do gRPC's reading and writing, and the calls that come.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "api/grpc/call.h"

namespace grpc {
class ServerBuilder;
}

namespace gradus::api {

class CallQueue {
 public:
  /// Called by a thread of the queue for each call, of whatever method; as all that a call calls it
  /// must not block. After a message of over 1 MiB, or a compressed one, a call is called by one of
  /// two other threads, so that no other call waits for what is made of it.
  using Handler = std::function<void(const std::shared_ptr<Call>&)>;

  /// @param builder of the server whose calls these will be; it is told to leave messages
  /// compressed
  /// @param most bytes of a message once it is inflated: to a call a larger one is the end of its
  ///   messages, and whatever status it is finished with then, the client gets RESOURCE_EXHAUSTED
  CallQueue(grpc::ServerBuilder& builder, std::size_t most, Handler handler);
  ~CallQueue();  // as stop()
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Once the server is built. @param threads >= 1
  void start(int threads);

  /// Once the server takes no calls any more: returns when the last one has ended. One thread.
  void stop();

 private:
  class Running;

  const std::unique_ptr<Running> running_;
};

}  // namespace gradus::api
