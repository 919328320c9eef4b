// One device's place in the queue: jobs run first come, first served on a fixed number of threads,
// so that a device never runs more at once than it should. A full queue is an answer, not a wait.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace gradus::serving {

class RunLane {
 public:
  using Job = std::function<void()>;

  /// @param name for thread names, at most 15 bytes are shown
  /// @param threads how many jobs run at once, >= 1
  /// @param capacity how many may wait, >= 1
  RunLane(std::string name, int threads, std::size_t capacity);
  /// Jobs that run are finished, those that wait are destroyed unrun.
  ~RunLane();

  RunLane(const RunLane&) = delete;
  RunLane& operator=(const RunLane&) = delete;

  /// False, and `job` untouched, when `capacity` jobs wait. Any thread; never blocks for a run.
  [[nodiscard]] bool try_push(Job&& job);

  std::size_t waiting() const;

 private:
  void work();

  const std::string name_;
  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar ready_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  int idle_ GUARDED_BY(mutex_) = 0;  // threads that wait for a job
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace gradus::serving
