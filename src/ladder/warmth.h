// Which runs may count as slow: not the first ones of a shape (they compile, plan and allocate),
// and not the first after the device had nothing to do (it slept).
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Warmth {
 public:
  /// Notes a good run of live traffic; true if it may count as slow. Constant; allocates for a new
  /// bucket only. Of many buckets all are forgotten at once: their next runs are first ones again.
  bool note_run(std::uint64_t bucket, TimePoint begun, TimePoint ended,
                const config::PolicyConfig& policy);
  /// Notes that the device was busy until then: a probe, or a run that failed.
  void note_busy(TimePoint ended);
  /// The level was loaded anew.
  void forget();

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> runs_;  // by bucket
  std::optional<TimePoint> busy_until_;
};

}  // namespace gradus::ladder
