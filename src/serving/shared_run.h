// One run, and how many requests still wait for it: when the last one has left, the run is ended.
#pragma once
#include <atomic>
#include <cstddef>

#include "runtime/stop.h"

namespace gradus::serving {

class SharedRun {
 public:
  explicit SharedRun(std::size_t members) : waiting_(members) {}

  /// Once for each member whose request was answered otherwise. Any thread.
  void leave() {
    if (waiting_.fetch_sub(1, std::memory_order_acq_rel) == 1) stop_.request();
  }
  runtime::Stop& stop() { return stop_; }

 private:
  std::atomic<std::size_t> waiting_;
  runtime::Stop stop_;
};

}  // namespace gradus::serving
