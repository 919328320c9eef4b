#include "api/grpc/call_queue.h"

#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"

namespace gradus::api {
namespace {

constexpr int kWaitingCalls = 4;  // that a client's call can be put into at once
constexpr int kAsideThreads = 2;

thread_local const CallQueue* queue_of_this_thread = nullptr;

}  // namespace

CallQueue::CallQueue(grpc::ServerBuilder& builder, Handler handler)
    : handler_(std::move(handler)),
      queue_(builder.AddCompletionQueue()),
      aside_("grpc-large", kAsideThreads, std::numeric_limits<std::size_t>::max()) {
  builder.RegisterAsyncGenericService(&service_);
}

CallQueue::~CallQueue() { stop(); }

void CallQueue::start(int threads) {
  for (int i = 0; i < kWaitingCalls; ++i) add_call();
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
    pthread_setname_np(threads_.back().native_handle(), "grpc");
  }
}

void CallQueue::stop() {
  if (threads_.empty()) return;
  {
    const MutexLock lock(mutex_);
    while (calls_ > 0) ended_.wait(mutex_);
  }
  queue_->Shutdown();
  threads_.clear();  // each returns when nothing is left to do
}

void CallQueue::add_call() {
  {
    const MutexLock lock(mutex_);
    ++calls_;
  }
  const std::shared_ptr<Call> call(new Call(*this));
  call->wait_for_client();
}

void CallQueue::call_ended() {
  const MutexLock lock(mutex_);
  if (--calls_ == 0) ended_.notify_all();
}

void CallQueue::work() {
  queue_of_this_thread = this;
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (tag == &alarm_) {
      do_posted();
      continue;
    }
    auto& event = *static_cast<Call::Event*>(tag);
    const std::shared_ptr<Call> call = std::move(event.call);
    try {
      ((*call).*event.happened)(ok);
    } catch (const std::exception& error) {  // for want of memory
      log::error("grpc: a call was dropped", {{"what", error.what()}});
      call->context_.TryCancel();
    }
  }
}

void CallQueue::post(std::function<void()> job) {
  if (queue_of_this_thread == this) return job();
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(job));
  }
  if (first) alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
}

void CallQueue::do_posted() {
  std::deque<std::function<void()>> jobs;
  {
    const MutexLock lock(mutex_);
    jobs.swap(posted_);
  }
  for (const auto& job : jobs) job();
}

void CallQueue::aside(std::function<void()> job) {
  if (!aside_.try_push(std::move(job))) job();
}

}  // namespace gradus::api
