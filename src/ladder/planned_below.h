// How many of the last requests had to start below the current level for want of time there.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

/// Slides over the present second and the 9 before it, so that one bad moment of a steady stream is
/// no overload, and a stream of which most starts below is one within a second or two. Constant.
class PlannedBelow {
 public:
  static constexpr std::uint32_t kLeastRequests = 10;
  static constexpr std::chrono::seconds kSpan{10};

  void note(bool below, TimePoint at) {
    Second& second = seconds_[slot_of(at)];
    if (second.begins != begin_of(at)) second = {.begins = begin_of(at)};
    ++second.requests;
    if (below) ++second.below;
  }

  struct Counts {
    std::uint32_t requests = 0;
    std::uint32_t below = 0;
  };
  Counts counts(TimePoint at, std::chrono::seconds span = kSpan) const {
    Counts counts;
    for (const Second& second : seconds_) {
      if (second.begins + span <= begin_of(at)) continue;
      counts.requests += second.requests;
      counts.below += second.below;
    }
    return counts;
  }

  /// And it goes on: some of the present second or of the one before were below.
  bool too_many(TimePoint at, const config::PolicyConfig& policy) const {
    const Counts now = counts(at);
    return counts(at, std::chrono::seconds(2)).below > 0 && now.requests >= kLeastRequests &&
           now.below > policy.overload_planned_below * now.requests;
  }

 private:
  struct Second {
    std::chrono::seconds begins{};
    std::uint32_t requests = 0;
    std::uint32_t below = 0;
  };
  static std::chrono::seconds begin_of(TimePoint at) {
    return std::chrono::floor<std::chrono::seconds>(at.time_since_epoch());
  }
  static std::size_t slot_of(TimePoint at) {
    return static_cast<std::size_t>(begin_of(at).count()) % static_cast<std::size_t>(kSpan.count());
  }

  std::array<Second, static_cast<std::size_t>(kSpan.count())> seconds_{};
};

}  // namespace gradus::ladder
