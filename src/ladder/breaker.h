// Keeps user requests away from a level that fails, so that they never wait for the ladder to move.
// It opens, lets one trial through when it has rested, and closes on success. Probes pass it.
#pragma once
#include "base/clock.h"

namespace gradus::ladder {

enum class BreakerState { kClosed, kOpen, kHalfOpen };

const char* to_string(BreakerState state);  // closed, open, half_open

class Breaker {
 public:
  bool closed() const { return !open_; }
  BreakerState state(TimePoint at) const;
  TimePoint opened_at() const { return opened_at_; }    // of an open one
  TimePoint next_trial() const { return next_trial_; }  // of an open one

  /// The level failed. Of an open breaker: the rest starts again.
  void open(TimePoint at, Duration rest);
  void close() { open_ = false; }
  /// The level answered. A run begun before the opening proves nothing.
  void succeed(TimePoint begun);

  bool trial_due(TimePoint at) const { return open_ && at >= next_trial_; }
  /// Takes the trial that is due. If nothing is heard of it, another one is due after `rest`.
  void claim_trial(TimePoint at, Duration rest) { next_trial_ = at + rest; }

 private:
  bool open_ = false;
  TimePoint opened_at_{};
  TimePoint half_open_at_{};
  TimePoint next_trial_{};
};

}  // namespace gradus::ladder
