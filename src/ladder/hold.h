// For how long a level has been heard to succeed without a break: what promotion waits for. A
// failure, a loss and silence are breaks.
#pragma once
#include <optional>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Hold {
 public:
  /// A probe or trial succeeded at `at`, begun at `begun`.
  void succeed(TimePoint begun, TimePoint at, const config::PolicyConfig& policy);
  void break_off() { since_.reset(); }

  /// Successes span the whole hold, and the last one is fresh.
  bool complete(TimePoint at, const config::PolicyConfig& policy) const;
  /// The first success of the unbroken series.
  std::optional<TimePoint> since() const { return since_; }
  TimePoint last() const { return last_; }  // of an unbroken series

 private:
  std::optional<TimePoint> since_;
  TimePoint last_{};
};

}  // namespace gradus::ladder
