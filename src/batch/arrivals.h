// How much more is on its way to a level: callers that wait for an answer before they ask again
// come back soon after it. So if lately more was in hand at once than now, the difference is
// expected. A lone caller's next request, and the last of a known set of callers, expect nobody. It
// cannot foresee a first burst, and after a burst it expects too much for up to two windows: the
// batcher's max_delay bounds what that costs.
#pragma once
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace gradus::batch {

class Arrivals {
 public:
  /// @param window > 0
  explicit Arrivals(Duration window = std::chrono::milliseconds(100)) : window_(window) {}

  /// Samples that the level takes, to wait or to run.
  void entered(TimePoint now, std::uint32_t samples);
  /// The same samples leave: answered, failed, expired, cancelled. Not more than entered.
  void left(TimePoint now, std::uint32_t samples);

  /// Samples that wait or run.
  std::uint64_t in_hand() const { return in_hand_; }

  /// The most samples in hand at once over this window and the one before, less those in hand now.
  std::uint32_t expected(TimePoint now);

 private:
  void roll(TimePoint now);

  Duration window_;
  TimePoint began_{};  // the current window
  std::uint64_t in_hand_ = 0;
  std::uint64_t most_ = 0;         // in the current window
  std::uint64_t most_before_ = 0;  // in the one before
};

}  // namespace gradus::batch
