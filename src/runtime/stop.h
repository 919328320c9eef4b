// Ends a run before it is over, because nobody waits for its answer any more.
#pragma once
#include <atomic>

#include "base/mutex.h"

namespace gradus::runtime {

/// One for each run. Any thread.
class Stop {
 public:
  /// What can be ended; called once at most, under a lock: must not block.
  struct Target {
    virtual void stop() = 0;

   protected:
    ~Target() = default;
  };

  void request() {
    const MutexLock lock(mutex_);
    requested_ = true;
    if (target_ != nullptr) target_->stop();
    target_ = nullptr;
  }
  bool requested() const { return requested_; }

  /// While it lives, a request reaches the target; at once if it came before.
  class Scope {
   public:
    /// @param stop null: nobody can end this run
    Scope(Stop* stop, Target& target) : stop_(stop) {
      if (stop_ == nullptr) return;
      const MutexLock lock(stop_->mutex_);
      if (stop_->requested_) {
        target.stop();
      } else {
        stop_->target_ = &target;
      }
    }
    ~Scope() {
      if (stop_ == nullptr) return;
      const MutexLock lock(stop_->mutex_);
      stop_->target_ = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Stop* const stop_;
  };

 private:
  Mutex mutex_;
  Target* target_ GUARDED_BY(mutex_) = nullptr;
  std::atomic<bool> requested_{false};
};

}  // namespace gradus::runtime
