// How much longer a level must wait for its next promotion, because earlier ones did not last.
//
// A level is *held* while the current level is this one or a better one. The ladder falling below
// it ends that; if it was promoted to less than `relapse_within` before, the fall is a relapse. So
// between two promotions to one level there is always one fall below it, and the waits after
// relapses bound how often promotions come (docs/policy.md, "Bounds").
#pragma once
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Relapses {
 public:
  /// The level became the current one; by a promotion, or because nothing else was there.
  void hold_from(TimePoint at, bool promoted);
  /// The ladder fell below the level.
  void fall_at(TimePoint at, const config::PolicyConfig& policy);

  /// No promotion before this.
  TimePoint promotion_from() const { return promotion_from_; }
  /// Relapses that still count: each `quiet_forgives` held takes one away.
  std::uint32_t count(TimePoint at, const config::PolicyConfig& policy) const;

 private:
  std::uint32_t count_ = 0;  // as of the last fall
  std::optional<TimePoint> held_since_;
  bool promoted_ = false;  // held_since_ is a promotion
  TimePoint promotion_from_ = TimePoint::min();
};

}  // namespace gradus::ladder
