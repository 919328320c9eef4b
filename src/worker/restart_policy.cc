#include "worker/restart_policy.h"

#include <algorithm>

namespace gradus::worker {

Restart after_death(RestartState& state, const RestartPolicy& policy, TimePoint at, double chance) {
  state.deaths.push_back(at);
  while (at - state.deaths.front() > policy.loop_window) state.deaths.pop_front();
  Duration wait = policy.first;
  for (int i = 0; i < state.in_a_row && wait < policy.cap; ++i) wait *= 2;
  wait = std::min(wait, policy.cap);
  ++state.in_a_row;
  const bool crash_loop = state.deaths.size() >= policy.loop_deaths;
  if (crash_loop) wait = std::max(wait, policy.loop_pause);
  const double factor = 1 + policy.jitter * (2 * chance - 1);
  return {std::chrono::duration_cast<Duration>(wait * factor), crash_loop};
}

void after_probe(RestartState& state) { state.in_a_row = 0; }

}  // namespace gradus::worker
