#include "simulate/faults.h"

#include <algorithm>

namespace gradus::simulate {
namespace {

/// Which time it is that the fault has come, or is due next; -1 before the first.
std::int64_t turn_of(const Fault& fault, Duration time) {
  if (time < fault.at) return -1;
  if (fault.every <= Duration::zero()) return 0;
  const std::int64_t turn = (time - fault.at) / fault.every;
  return fault.times == 0 ? turn : std::min<std::int64_t>(turn, fault.times - 1);
}

Duration begin_of(const Fault& fault, std::int64_t turn) { return fault.at + turn * fault.every; }

bool active(const Fault& fault, Duration time) {
  const std::int64_t turn = turn_of(fault, time);
  return turn >= 0 && time < begin_of(fault, turn) + fault.lasts;
}

Duration next_change_of(const Fault& fault, Duration after) {
  const std::int64_t turn = turn_of(fault, after);
  if (turn < 0) return fault.at;
  if (active(fault, after)) return begin_of(fault, turn) + fault.lasts;
  const bool again =
      fault.every > Duration::zero() && (fault.times == 0 || turn + 1 < std::int64_t{fault.times});
  return again ? begin_of(fault, turn + 1) : Duration::max();
}

}  // namespace

Faults::Faults(const Scenario& scenario, std::size_t level) {
  for (const Fault& fault : scenario.faults) {
    if (fault.level == level) faults_.push_back(fault);
  }
}

Health Faults::at(Duration time) const {
  Health health;
  for (const Fault& fault : faults_) {
    if (!active(fault, time)) continue;
    switch (fault.what) {
      case Trouble::kLost:
        health.lost = true;
        break;
      case Trouble::kHang:
        health.hangs = true;
        break;
      case Trouble::kSlow:
        health.factor *= fault.factor;
        break;
      case Trouble::kErrors:
        health.errors = std::max(health.errors, fault.share);
        break;
      case Trouble::kAlternating:
        health.alternating = true;
        break;
    }
  }
  return health;
}

Duration Faults::next_change(Duration after) const {
  Duration next = Duration::max();
  for (const Fault& fault : faults_) next = std::min(next, next_change_of(fault, after));
  return next;
}

}  // namespace gradus::simulate
