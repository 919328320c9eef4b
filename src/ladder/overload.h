// Queueing that does not go away: even the shortest wait was long, for `overload_for` on end.
#pragma once
#include <optional>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Overload {
 public:
  /// @param queue how long the execution had waited when it began
  void note(Duration queue, TimePoint at, Duration target, const config::PolicyConfig& policy) {
    if (queue <= policy.overload_queue_share * target) {
      above_since_.reset();
    } else if (!above_since_ || at - last_ > policy.overload_for) {
      above_since_ = at;
    }
    last_ = at;
  }

  bool lasts(TimePoint at, const config::PolicyConfig& policy) const {
    return above_since_ && last_ - *above_since_ >= policy.overload_for &&
           at - last_ <= policy.overload_for;
  }

 private:
  std::optional<TimePoint> above_since_;  // no shorter wait was seen from then on
  TimePoint last_{};
};

}  // namespace gradus::ladder
