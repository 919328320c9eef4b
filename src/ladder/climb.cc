#include "ladder/climb.h"

#include <cstdio>

#include "ladder/move.h"

namespace gradus::ladder {
namespace {

bool qualifies(const LevelState& level, const State& state) {
  return level.usable() && level.hold.complete(state.now, state.policy) &&
         state.now >= level.relapses.promotion_from() && level.window.p99_under_target() &&
         level.carries_load();
}

std::string evidence_of(const LevelState& level, const State& state) {
  char line[256];
  std::snprintf(
      line, sizeof line,
      "level %d: good for %.1f s (hold %.1f s), p99 under %.1f ms in %u runs, relapses: %u",
      level.number, to_ms(level.hold.last() - *level.hold.since()) / 1000,
      to_ms(state.policy.hold) / 1000, to_ms(level.target), level.window.counts().timed,
      level.relapses.count(state.now, state.policy));
  return line;
}

}  // namespace

std::optional<Transition> climb(State& state) {
  for (std::size_t i = 0; i < *state.current; ++i) {
    if (!qualifies(state.levels[i], state)) continue;
    // A canary would start here and end in this move: between qualifying and being current a level
    // would get a share of live traffic.
    return move_to(state, i, Cause::kPromoted, evidence_of(state.levels[i], state));
  }
  return std::nullopt;
}

}  // namespace gradus::ladder
