// A mutex that clang's thread-safety analysis knows: each field it guards says so.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define GRADUS_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define GRADUS_THREAD_ATTRIBUTE(x)
#endif
#define GUARDED_BY(mutex) GRADUS_THREAD_ATTRIBUTE(guarded_by(mutex))
#define REQUIRES(mutex) GRADUS_THREAD_ATTRIBUTE(requires_capability(mutex))

namespace gradus {

class GRADUS_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() GRADUS_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() GRADUS_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class GRADUS_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) GRADUS_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() GRADUS_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits on a Mutex that the caller holds, and holds again afterwards. May wake for no reason.
/// (condition_variable_any would do, with a second lock at every wait and every wake.)
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// False when the time is over.
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds time) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_for(lock, time);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace gradus
