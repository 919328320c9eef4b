#include "ladder/hold.h"

namespace gradus::ladder {
namespace {

// Probes may be late, and the machine busy; a level that was not heard for so many probe intervals
// has proved nothing for that time.
constexpr int kSilentProbes = 5;

bool silent(TimePoint from, TimePoint to, const config::PolicyConfig& policy) {
  return to - from > kSilentProbes * policy.probe_every;
}

}  // namespace

void Hold::succeed(TimePoint begun, TimePoint at, const config::PolicyConfig& policy) {
  if (!since_ || silent(last_, begun, policy)) since_ = at;
  last_ = at;
}

bool Hold::complete(TimePoint at, const config::PolicyConfig& policy) const {
  return since_ && last_ - *since_ >= policy.hold && !silent(last_, at, policy);
}

}  // namespace gradus::ladder
