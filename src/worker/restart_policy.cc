#include "worker/restart_policy.h"

#include <algorithm>

namespace gradus::worker {

namespace {

Duration doubled(const RestartPolicy& policy, int failures) {
  Duration wait = policy.first;
  for (int i = 1; i < failures && wait < policy.cap; ++i) wait *= 2;
  return std::min(wait, policy.cap);
}

Duration jittered(const RestartPolicy& policy, Duration wait, double chance) {
  return std::chrono::duration_cast<Duration>(wait * (1 + policy.jitter * (2 * chance - 1)));
}

Duration lengthened(const RestartPolicy& policy, Duration wait, double chance) {
  return std::chrono::duration_cast<Duration>(wait * (1 + policy.jitter * chance));
}

}  // namespace

void note_run(FailedRuns& failed, bool ok, TimePoint at) {
  if (ok) {
    failed = {};
    return;
  }
  if (failed.in_a_row++ == 0) failed.first = at;
  failed.last = at;
}

bool may_be_useless(const FailedRuns& failed, const RestartPolicy& policy) {
  return failed.in_a_row >= policy.failed_runs && failed.last - failed.first >= policy.failed_for;
}

Restart after_death(RestartState& state, const RestartPolicy& policy, TimePoint at, double chance) {
  state.deaths.push_back(at);
  while (at - state.deaths.front() > policy.loop_window) state.deaths.pop_front();
  Duration wait = jittered(policy, doubled(policy, ++state.in_a_row), chance);
  const bool crash_loop = state.deaths.size() >= policy.loop_deaths;
  if (crash_loop) wait = std::max(wait, lengthened(policy, policy.loop_pause, chance));
  return {wait, crash_loop};
}

Duration backoff(const RestartPolicy& policy, int failures, double chance) {
  return jittered(policy, doubled(policy, failures), chance);
}

void after_probe(RestartState& state) { state.in_a_row = 0; }

}  // namespace gradus::worker
