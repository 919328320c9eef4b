// A mutex that clang's thread-safety analysis knows: each field it guards says so.
#pragma once
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

/// Waits on a Mutex that the caller holds.
using CondVar = std::condition_variable_any;

}  // namespace gradus
