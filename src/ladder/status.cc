#include "ladder/status.h"

#include <algorithm>

namespace gradus::ladder {
namespace {

bool better_than_current(const State& state, std::size_t index) {
  return state.current && index < *state.current;
}

LevelStatus status_of(const State& state, std::size_t index, TimePoint at) {
  const LevelState& level = state.levels[index];
  const bool failing = level.ready() && !level.breaker.closed();
  LevelStatus status{.level = level.number,
                     .condition = level.condition,
                     .reason = failing ? level.last_error : level.reason,
                     .breaker = level.breaker.state(at),
                     .next_trial = {},
                     .target_p99 = level.target,
                     .p99 = level.window.p99_run(),
                     .served = level.served,
                     .failed = level.failed,
                     .relapses = level.relapses.count(at, state.policy),
                     .canary_share = {},
                     .promotion_from = {}};
  if (state.canary && state.canary->level() == index) {
    status.canary_share = state.canary->share(state.policy);
  }
  if (!level.breaker.closed()) status.next_trial = level.breaker.next_trial();
  if (level.ready() && better_than_current(state, index)) {
    const TimePoint held = level.hold.since().value_or(at) + state.policy.hold;
    status.promotion_from = std::max(held, level.relapses.promotion_from());
  }
  return status;
}

}  // namespace

bool degraded_at(const State& state, int level) {
  const std::size_t index = index_of(state, level);
  return std::any_of(state.levels.begin(),
                     state.levels.begin() + static_cast<std::ptrdiff_t>(index),
                     [](const LevelState& better) { return !better.left_out(); });
}

bool degraded(const State& state) {
  return !state.current || degraded_at(state, state.levels[*state.current].number);
}

bool alerts_due(const State& state, TimePoint at) {
  return at - state.start >= state.policy.start_grace ||
         std::none_of(state.levels.begin(), state.levels.end(), [](const LevelState& level) {
           return level.condition == Condition::kLoading && !level.arrived;
         });
}

bool urgent(const State& state, TimePoint at) {
  if (!alerts_due(state, at)) return false;
  const auto last = std::find_if(state.levels.rbegin(), state.levels.rend(),
                                 [](const LevelState& level) { return !level.left_out(); });
  return last != state.levels.rend() && last->last_answer &&
         at - *last->last_answer < state.policy.urgent_within && degraded_at(state, last->number);
}

bool wants_probe(const State& state, int level_number, TimePoint at) {
  const std::size_t index = index_of(state, level_number);
  const LevelState& level = state.levels[index];
  if (level.condition == Condition::kUnavailable) return level.arrived;
  if (!level.ready()) return false;
  const bool silent = level.probed_when_idle && at - level.good_at >= state.policy.probe_every;
  return silent || better_than_current(state, index) || !level.breaker.closed();
}

Status status(const State& state, TimePoint at) {
  Status status{.current = {},
                .degraded = degraded(state),
                .saturated = state.saturated,
                .urgent = urgent(state, at),
                .cooldown_until = {},
                .pinned = {},
                .pinned_until = {},
                .pin_reason = {},
                .last_canary = state.last_canary,
                .levels = {}};
  if (state.pin && at < state.pin->until) {
    status.pinned = state.levels[state.pin->level].number;
    if (state.pin->until != TimePoint::max()) status.pinned_until = state.pin->until;
    status.pin_reason = state.pin->reason;
  }
  if (state.current) status.current = state.levels[*state.current].number;
  if (at < state.cooldown_until) status.cooldown_until = state.cooldown_until;
  for (std::size_t i = 0; i < state.levels.size(); ++i) {
    status.levels.push_back(status_of(state, i, at));
  }
  return status;
}

}  // namespace gradus::ladder
