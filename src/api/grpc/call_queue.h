// The threads that do gRPC's reading and writing, and what they are asked to do.
#pragma once
#include "base/mutex.h"  // first: Abseil, under gRPC, has macros of the same names

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "api/grpc/call.h"
#include "serving/run_lane.h"

namespace gradus::api {

class CallQueue {
 public:
  /// Called by a thread of the queue for each call, of whatever method. It must not block; what
  /// follows a large message does not hold it up (`aside`).
  using Handler = std::function<void(std::shared_ptr<Call>)>;

  /// @param builder of the server whose calls these will be
  CallQueue(grpc::ServerBuilder& builder, Handler handler);
  ~CallQueue();  // as stop()
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Once the server is built. @param threads >= 1
  void start(int threads);

  /// Once the server takes no calls any more: returns when the last one has ended. One thread.
  void stop();

  /// Done by a thread of the queue: at once if this is one. gRPC works best when all that concerns
  /// its connections happens there. @param job on behalf of a call that it keeps alive
  void post(std::function<void()> job);

  /// Done by a thread that may be held up.
  void aside(std::function<void()> job);

 private:
  friend class Call;

  void work();
  void do_posted();
  void add_call();
  void call_ended();

  const Handler handler_;
  grpc::AsyncGenericService service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;

  Mutex mutex_;
  CondVar ended_;
  std::size_t calls_ GUARDED_BY(mutex_) = 0;  // with those that wait for a client
  std::deque<std::function<void()>> posted_ GUARDED_BY(mutex_);
  grpc::Alarm alarm_;  // set while something is posted: it brings a thread of the queue

  serving::RunLane aside_;
  std::vector<std::jthread> threads_;
};

}  // namespace gradus::api
