#include "serving/janitor.h"

#include <pthread.h>

#include <utility>

namespace gradus::serving {

Janitor::Janitor(std::function<void()> ended)
    : ended_(std::move(ended)), thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), "janitor");
}

Janitor::~Janitor() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<Model> Janitor::adopt(std::unique_ptr<Model> model) {
  {
    const MutexLock lock(mutex_);
    ++living_;
    dead_.reserve(living_);  // so that an end needs no memory
  }
  return {model.release(), [this](Model* dead) {
            const MutexLock lock(mutex_);
            dead_.emplace_back(dead);
            changed_.notify_all();  // under the lock: once that is free, this may be gone
          }};
}

void Janitor::work() {
  mutex_.lock();
  while (living_ > 0 || !stopping_) {
    if (dead_.empty()) {
      changed_.wait(mutex_);
      continue;
    }
    std::unique_ptr<Model> dead = std::move(dead_.back());
    dead_.pop_back();
    mutex_.unlock();
    dead.reset();
    if (ended_) ended_();
    mutex_.lock();
    --living_;
  }
  mutex_.unlock();
}

}  // namespace gradus::serving
