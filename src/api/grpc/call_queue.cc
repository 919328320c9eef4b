#include "api/grpc/call_queue.h"

#include "base/mutex.h"  // before gRPC's: Abseil has macros of the same names

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "api/grpc/compressed.h"
#include "api/grpc/status.h"
#include "base/clock.h"
#include "base/log.h"
#include "serving/run_lane.h"

namespace gradus::api {
namespace {

constexpr int kWaitingCalls = 4;  // that a client's call can be put into at once
constexpr int kAsideThreads = 2;
// What is done with a message of more bytes may take so long that other calls would feel it.
constexpr std::size_t kLarge = 1 << 20;

thread_local const void* queue_of_this_thread = nullptr;

}  // namespace

class CallQueue::Running {
 public:
  Running(grpc::ServerBuilder& builder, std::size_t most, Handler handler);
  ~Running() { stop(); }

  void start(int threads);
  void stop();

 private:
  class OneCall;

  void work();
  void add_call();
  void call_ended();
  // Done by a thread of the queue: at once if this is one. gRPC works best when all that concerns
  // its connections happens there. `job` keeps its call alive.
  void post(std::function<void()> job);
  void do_posted();

  const std::size_t most_;  // bytes of an inflated message
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

class CallQueue::Running::OneCall final : public Call,
                                          public std::enable_shared_from_this<OneCall> {
 public:
  // What gRPC hands back when something has happened. It keeps the call alive meanwhile.
  struct Event {
    void (OneCall::*happened)(bool ok);
    std::shared_ptr<OneCall> call = nullptr;
  };

  explicit OneCall(Running& queue) : queue_(queue), stream_(&context_) {}
  ~OneCall() override { queue_.call_ended(); }

  void wait_for_client() {
    context_.AsyncNotifyWhenDone(begin(done_));
    queue_.service_.RequestCall(&context_, &stream_, queue_.queue_.get(), queue_.queue_.get(),
                                begin(accepted_));
  }
  void drop(const std::exception& error) {  // for want of memory
    log::error("grpc: a call was dropped", {{"what", error.what()}});
    context_.TryCancel();
  }

  const std::string& method() const override { return context_.method(); }
  const grpc::ServerContext& context() const override { return context_; }
  void read(std::function<void(grpc::ByteBuffer*)> done) override;
  void write(grpc::ByteBuffer&& message, std::function<void(bool)> done) override;
  void add_trailer(const std::string& name, const std::string& value) override {
    context_.AddTrailingMetadata(name, value);
  }
  void time_sending(std::shared_ptr<SendTimes> times) override { send_times_ = std::move(times); }
  void finish(const grpc::Status& status) override;
  void finish(grpc::ByteBuffer&& last) override;
  void when_cancelled(std::function<void()> call) override;

 private:
  void* begin(Event& event) {
    event.call = shared_from_this();
    return &event;
  }
  void on_accepted(bool ok);
  void on_read(bool ok);
  void tell_of_message(bool there_is_one, bool compressed);
  bool inflate();
  void on_written(bool ok);
  void on_finished(bool ok) { end_sending(ok); }
  void on_done(bool);
  void begin_sending();
  void end_sending(bool ok);

  Running& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  Event accepted_{&OneCall::on_accepted};
  Event read_{&OneCall::on_read};
  Event written_{&OneCall::on_written};
  Event finished_{&OneCall::on_finished};
  Event done_{&OneCall::on_done};
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::shared_ptr<SendTimes> send_times_;
  std::function<void(grpc::ByteBuffer*)> when_read_;
  std::function<void(bool)> when_written_;
  std::atomic<bool> over_{false};  // finish() was called

  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  grpc::Status unreadable_ GUARDED_BY(mutex_);  // why a message was; else OK
  std::function<void()> when_cancelled_ GUARDED_BY(mutex_);
};

void CallQueue::Running::OneCall::on_accepted(bool ok) {
  if (!ok) {               // the server ends
    done_.call = nullptr;  // it comes for calls that were accepted only
    return;
  }
  queue_.add_call();
  queue_.handler_(shared_from_this());
}

void CallQueue::Running::OneCall::read(std::function<void(grpc::ByteBuffer*)> done) {
  when_read_ = std::move(done);
  stream_.Read(&incoming_, begin(read_));
}

void CallQueue::Running::OneCall::on_read(bool ok) {
  const bool compressed = ok && is_compressed(incoming_);
  if (!ok || (incoming_.Length() <= kLarge && !compressed)) return tell_of_message(ok, false);
  const bool taken = queue_.aside_.try_push([self = shared_from_this(), compressed] {
    try {
      self->tell_of_message(true, compressed);
    } catch (const std::exception& error) {
      self->drop(error);
    }
  });
  if (!taken) tell_of_message(true, compressed);
}

// What is told may keep this call: it is let go in any case.
void CallQueue::Running::OneCall::tell_of_message(bool there_is_one, bool compressed) {
  const auto done = std::exchange(when_read_, nullptr);
  done(there_is_one && (!compressed || inflate()) ? &incoming_ : nullptr);
}

// False: to its reader it is the end of the messages, and the call will end with the reason.
bool CallQueue::Running::OneCall::inflate() {
  const auto inflated = inflate_message(incoming_, queue_.most_);
  if (inflated) return true;
  const Code code = inflated.error().code;
  const auto status = code == Code::kOverloaded ? grpc::StatusCode::RESOURCE_EXHAUSTED
                                                : static_cast<grpc::StatusCode>(grpc_status(code));
  const MutexLock lock(mutex_);
  unreadable_ = {status, "the compressed message: " + inflated.error().message};
  return false;
}

void CallQueue::Running::OneCall::write(grpc::ByteBuffer&& message,
                                        std::function<void(bool)> done) {
  outgoing_.Swap(&message);
  when_written_ = std::move(done);
  queue_.post([self = shared_from_this()] {
    self->begin_sending();
    self->stream_.Write(self->outgoing_, self->begin(self->written_));
  });
}

void CallQueue::Running::OneCall::on_written(bool ok) {
  outgoing_.Clear();
  end_sending(ok);
  std::exchange(when_written_, nullptr)(ok);
}

void CallQueue::Running::OneCall::finish(const grpc::Status& status) {
  if (over_.exchange(true)) return;
  grpc::Status said = status;
  {
    const MutexLock lock(mutex_);
    if (!unreadable_.ok()) said = unreadable_;
  }
  queue_.post([self = shared_from_this(), said] {
    self->begin_sending();
    self->stream_.Finish(said, self->begin(self->finished_));
  });
}

void CallQueue::Running::OneCall::finish(grpc::ByteBuffer&& last) {
  if (over_.exchange(true)) return;
  outgoing_.Swap(&last);
  queue_.post([self = shared_from_this()] {
    self->begin_sending();
    self->stream_.WriteAndFinish(self->outgoing_, {}, grpc::Status::OK,
                                 self->begin(self->finished_));
  });
}

void CallQueue::Running::OneCall::begin_sending() {
  if (send_times_) send_times_->begun = steady_clock().now();
}

void CallQueue::Running::OneCall::end_sending(bool ok) {
  if (send_times_ && ok) send_times_->ended = steady_clock().now();
  send_times_ = nullptr;
}

void CallQueue::Running::OneCall::when_cancelled(std::function<void()> call) {
  {
    const MutexLock lock(mutex_);
    if (!ended_) {
      when_cancelled_ = std::move(call);
      return;
    }
    if (!cancelled_) return;
  }
  call();
}

// What is kept for a cancellation may keep this call: it is let go in any case.
void CallQueue::Running::OneCall::on_done(bool) {
  std::function<void()> call;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    cancelled_ = context_.IsCancelled();
    call = std::exchange(when_cancelled_, nullptr);
    if (!cancelled_) return;
  }
  if (call) call();
}

CallQueue::Running::Running(grpc::ServerBuilder& builder, std::size_t most, Handler handler)
    : most_(most),
      handler_(std::move(handler)),
      queue_(builder.AddCompletionQueue()),
      aside_("grpc-large", kAsideThreads, std::numeric_limits<std::size_t>::max()) {
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.RegisterAsyncGenericService(&service_);
}

void CallQueue::Running::start(int threads) {
  for (int i = 0; i < kWaitingCalls; ++i) add_call();
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
    pthread_setname_np(threads_.back().native_handle(), "grpc");
  }
}

void CallQueue::Running::stop() {
  if (threads_.empty()) return;
  {
    const MutexLock lock(mutex_);
    while (calls_ > 0) ended_.wait(mutex_);
  }
  queue_->Shutdown();
  threads_.clear();  // each returns when nothing is left to do
}

void CallQueue::Running::add_call() {
  {
    const MutexLock lock(mutex_);
    ++calls_;
  }
  std::make_shared<OneCall>(*this)->wait_for_client();
}

void CallQueue::Running::call_ended() {
  const MutexLock lock(mutex_);
  if (--calls_ == 0) ended_.notify_all();
}

void CallQueue::Running::work() {
  queue_of_this_thread = this;
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (tag == &alarm_) {
      do_posted();
      continue;
    }
    auto& event = *static_cast<OneCall::Event*>(tag);
    const std::shared_ptr<OneCall> call = std::move(event.call);
    try {
      ((*call).*event.happened)(ok);
    } catch (const std::exception& error) {
      call->drop(error);
    }
  }
}

void CallQueue::Running::post(std::function<void()> job) {
  if (queue_of_this_thread == this) return job();
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(job));
  }
  if (first) alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
}

void CallQueue::Running::do_posted() {
  std::deque<std::function<void()>> jobs;
  {
    const MutexLock lock(mutex_);
    jobs.swap(posted_);
  }
  for (const auto& job : jobs) job();
}

CallQueue::CallQueue(grpc::ServerBuilder& builder, std::size_t most, Handler handler)
    : running_(std::make_unique<Running>(builder, most, std::move(handler))) {}

CallQueue::~CallQueue() = default;

void CallQueue::start(int threads) { running_->start(threads); }
void CallQueue::stop() { running_->stop(); }

void read_request(const std::shared_ptr<Call>& call, std::function<void(grpc::ByteBuffer&)> done) {
  call->read([call, done = std::move(done)](grpc::ByteBuffer* message) {
    if (message != nullptr) return done(*message);
    call->finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"));
  });
}

}  // namespace gradus::api
