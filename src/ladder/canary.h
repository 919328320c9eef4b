// The last steps of a climb: a better level that has held gets a first and a second share of live
// traffic (5 %, 25 %) before it gets all of it (docs/policy.md, "Canary").
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Canary {
 public:
  enum class Verdict { kGoesOn, kPassed, kFailed };

  /// @param level its index in the ladder
  Canary(std::size_t level, TimePoint at) : level_(level), since_(at) {}

  std::size_t level() const { return level_; }
  double share(const config::PolicyConfig& policy) const {
    return first_stage_ ? policy.canary_first_share : policy.canary_second_share;
  }

  /// For each request that could go either way: whether it is one of the share. Evenly spread.
  bool takes_next(const config::PolicyConfig& policy);

  /// An answer or a failure of live traffic on the level, begun within the canary.
  /// @param slow it took longer than the level's target, and may count as slow
  void answered(bool slow);
  void failed();
  void probe_succeeded() { ++probes_; }

  /// The stage as of now; a first stage that is passed becomes the second one, kGoesOn.
  Verdict judge(TimePoint at, const config::PolicyConfig& policy);

  std::uint32_t good() const { return good_; }          // answers of this stage, slow ones included
  std::uint32_t failures() const { return failures_; }  // of this stage
  std::uint32_t slow() const { return slow_; }          // of this stage

 private:
  std::size_t level_;
  bool first_stage_ = true;
  TimePoint since_;  // of the stage
  double owed_ = 0;  // requests
  std::uint32_t good_ = 0;
  std::uint32_t failures_ = 0;
  std::uint32_t slow_ = 0;
  std::uint32_t probes_ = 0;
};

}  // namespace gradus::ladder
