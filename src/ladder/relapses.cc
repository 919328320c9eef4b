#include "ladder/relapses.h"

#include <algorithm>

namespace gradus::ladder {

void Relapses::hold_from(TimePoint at, bool promoted) {
  if (held_since_) return;
  held_since_ = at;
  promoted_ = promoted;
}

void Relapses::fall_at(TimePoint at, const config::PolicyConfig& policy) {
  if (!held_since_) return;
  count_ = count(at, policy);
  if (promoted_ && at - *held_since_ < policy.relapse_within) {
    // At the cap more relapses change nothing, so they are not counted: quiet time heals at once.
    Duration wait = policy.hold;
    std::uint32_t k = 0;
    for (; k <= count_ && wait < policy.hold_cap; ++k) wait *= 2;
    count_ = k;
    promotion_from_ = at + std::min<Duration>(wait, policy.hold_cap);
  }
  held_since_.reset();
}

std::uint32_t Relapses::count(TimePoint at, const config::PolicyConfig& policy) const {
  if (!held_since_) return count_;
  const auto forgiven = (at - *held_since_) / Duration(policy.quiet_forgives);
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, count_ - forgiven));
}

}  // namespace gradus::ladder
