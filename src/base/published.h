// A value that many threads read all the time and somebody replaces now and then: reading it costs
// one atomic load, and no lock while nothing was published since the thread's last look.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace gradus {

/// A thread that has read a value keeps it alive until it reads again, or ends: values hold what
/// must go at once by weak pointers. One for each type and thread: see read().
template <class T>
class Published {
 public:
  explicit Published(std::shared_ptr<const T> first) : value_(std::move(first)) {}

  /// Whoever reads after this has returned, reads the new value.
  void publish(std::shared_ptr<const T> next) {
    const MutexLock lock(mutex_);
    value_ = std::move(next);
    // A stamp is used once in a process: what a thread kept of another object never fits.
    stamp_.store(next_stamp(), std::memory_order_release);
  }

  /// Valid until this thread reads a Published<T> again.
  const T& read() const {
    struct Kept {
      std::uint64_t stamp = 0;
      std::shared_ptr<const T> value;
    };
    thread_local Kept kept;
    if (kept.stamp != stamp_.load(std::memory_order_acquire)) {
      const MutexLock lock(mutex_);
      kept = {stamp_.load(std::memory_order_relaxed), value_};
    }
    return *kept.value;
  }

 private:
  static std::uint64_t next_stamp() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> stamp_{next_stamp()};
};

}  // namespace gradus
