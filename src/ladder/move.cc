#include "ladder/move.h"

#include <utility>

namespace gradus::ladder {
namespace {

std::optional<int> number_of(const State& state, std::optional<std::size_t> level) {
  if (!level) return std::nullopt;
  return state.levels[*level].number;
}

}  // namespace

void end_canary(State& state) {
  if (state.canary && state.canary->failures() > 0) {
    state.levels[state.canary->level()].hold.break_off();
  }
  state.canary.reset();
}

Transition move_to(State& state, std::optional<std::size_t> to, Cause cause, std::string evidence) {
  const TimePoint at = state.now;
  const std::optional<std::size_t> from = state.current;
  const bool climb = cause == Cause::kPromoted || cause == Cause::kArrived;
  const bool pinned = cause == Cause::kPinned;  // says nothing of any level

  for (LevelState& level : state.levels) level.counts_from = at;
  if (from && !climb && !pinned) {
    state.levels[*from].hold.break_off();
    state.cooldown_until = at + state.policy.cooldown;
    const std::size_t landing = to.value_or(state.levels.size());
    for (std::size_t i = 0; i < landing; ++i) state.levels[i].relapses.fall_at(at, state.policy);
  }
  if (from) state.levels[*from].clear_record();
  if (to) {
    state.levels[*to].clear_record();
    state.levels[*to].relapses.hold_from(at, climb);
    state.served_before = true;
  }
  state.current = to;
  state.overload = {};
  state.planned_below = {};
  state.saturated = false;
  end_canary(state);
  return {at, number_of(state, from), number_of(state, to), cause, std::move(evidence)};
}

}  // namespace gradus::ladder
