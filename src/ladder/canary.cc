#include "ladder/canary.h"

namespace gradus::ladder {

bool Canary::takes_next(const config::PolicyConfig& policy) {
  owed_ += share(policy);
  if (owed_ < 1) return false;
  owed_ -= 1;
  return true;
}

void Canary::answered(bool slow) {
  ++good_;
  if (slow) ++slow_;
}

void Canary::failed() { ++failures_; }

Canary::Verdict Canary::judge(TimePoint at, const config::PolicyConfig& policy) {
  if (failures_ >= policy.canary_failures || slow_ >= policy.canary_slow_answers) {
    return Verdict::kFailed;
  }
  const Duration lasts = at - since_;
  const bool enough = lasts >= policy.canary_stage_max
                          ? good_ + probes_ >= policy.canary_good_answers
                          : lasts >= policy.canary_stage_min && good_ >= policy.canary_good_answers;
  if (!enough) return Verdict::kGoesOn;
  if (!first_stage_) return Verdict::kPassed;
  *this = Canary(level_, at);
  first_stage_ = false;
  return Verdict::kGoesOn;
}

}  // namespace gradus::ladder
