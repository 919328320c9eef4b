// What becomes of one request beside the levels' order (route.h): which level is in time for it,
// and when the next one starts although the first has not answered (docs/policy.md, "Plans").
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "ladder/estimates.h"

namespace gradus::ladder {

/// What a level could do for a request that came to it now.
struct Prospect {
  Duration wait{};  // until its run would begin
  Estimate run;     // of the run that it would be part of

  Duration p99() const { return wait + run.tail; }
  /// More than most requests need, so that what takes longer is late.
  Duration usual() const { return wait + std::min(run.tail, run.mean + 2 * run.deviation); }
};

/// By its p99, be it a guess: then the request goes elsewhere if it can, but is not refused for it.
inline bool makes_it(const Prospect& level, TimePoint now, TimePoint deadline) {
  return now + level.p99() <= deadline;
}

/// Work that may be done twice: each request pays a share of a run in, each hedge of
/// an attempt that runs takes one out.
class HedgeBudget {
 public:
  /// @param share of the requests, 0..1; 0: nothing is ever hedged
  explicit HedgeBudget(double share) : share_(share), tokens_(share > 0 ? kMost : 0) {}

  void request() { tokens_ = std::min(kMost, tokens_ + share_); }
  bool take() {
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  static constexpr double kMost = 50;  // a batch or two that hang at once
  double share_;
  double tokens_;
};

/// An attempt that waits or runs, and what the level could do that would be next.
struct Hedge {
  TimePoint started;     // the attempt: when it began to wait
  Duration usual;        // Prospect::usual() of it, then
  Prospect next;         // as of now
  bool upwards = false;  // it is better than the attempt's: it was left, or is not trusted yet
  TimePoint deadline;
};

/// When the next level should start beside the attempt: no earlier than the attempt should be over,
/// else at the last moment from which the next level is in time by its p99. Nothing: by then even
/// its mean, or upwards its p99, would be too late (docs/adr/0008-when-to-hedge.md).
inline std::optional<TimePoint> hedge_at(const Hedge& hedge) {
  using std::chrono::milliseconds;
  // For the timer to wake up and the request to get there, on a machine that is busy.
  const Duration slack = std::max<Duration>(milliseconds(2), (hedge.deadline - hedge.started) / 20);
  const TimePoint at =
      std::max(hedge.started + hedge.usual, hedge.deadline - hedge.next.p99() - slack);
  const Duration needs = hedge.upwards ? hedge.next.p99() : hedge.next.wait + hedge.next.run.mean;
  if (at + needs > hedge.deadline) return std::nullopt;
  return at;
}

}  // namespace gradus::ladder
