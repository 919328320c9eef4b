// How late a short timer fires on this machine while the drill runs: a bound of 50 ms says little
// where the machine itself sleeps for longer.
#pragma once
#include <cstddef>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace gradus::tools {

struct TimerDelay {
  Duration p50{};
  Duration p99{};
  Duration max{};
};

/// By the nearest rank; all zero without any. @param late reordered
TimerDelay delay_of(std::vector<Duration>& late);

/// Lets a timer of 1 ms fire again and again from now on, in a thread of its own.
class TimerWatch {
 public:
  TimerWatch();
  /// Ends it; how late each was. Once.
  std::vector<Duration> stop();

 private:
  std::vector<Duration> late_;  // of the thread, until it has ended
  std::jthread thread_;
};

}  // namespace gradus::tools
