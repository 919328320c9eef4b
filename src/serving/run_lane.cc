#include "serving/run_lane.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "base/log.h"

namespace gradus::serving {

RunLane::RunLane(std::string name, int threads, std::size_t capacity)
    : name_(std::move(name)), capacity_(capacity) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
    pthread_setname_np(threads_.back().native_handle(), name_.substr(0, 15).c_str());
  }
}

RunLane::~RunLane() {
  std::deque<Job> unrun;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    unrun.swap(jobs_);
  }
  ready_.notify_all();
  unrun.clear();     // before what runs has ended
  threads_.clear();  // joins
}

bool RunLane::try_push(Job&& job) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    if (jobs_.size() >= capacity_) return false;
    jobs_.push_back(std::move(job));
    wake = idle_ > 0;  // a busy thread looks for more by itself
  }
  if (wake) ready_.notify_one();
  return true;
}

std::size_t RunLane::waiting() const {
  const MutexLock lock(mutex_);
  return jobs_.size();
}

void RunLane::work() {
  for (;;) {
    Job job;
    {
      const MutexLock lock(mutex_);
      ++idle_;
      while (jobs_.empty() && !stopping_) ready_.wait(mutex_);
      --idle_;
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::exception& error) {  // for want of memory; the request answers as it dies
      log::error("a request was dropped: " + std::string(error.what()));
    }
  }
}

}  // namespace gradus::serving
