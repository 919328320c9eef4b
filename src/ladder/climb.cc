#include "ladder/climb.h"

#include <cstdio>

#include "ladder/move.h"

namespace gradus::ladder {
namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// Nothing that is known of the level at this moment speaks against it.
bool may_climb(const LevelState& level, const State& state) {
  return level.usable() && level.hold.complete(state.now, state.policy) &&
         state.now >= level.relapses.promotion_from() && level.carries_load();
}

bool qualifies(const LevelState& level, const State& state) {
  return may_climb(level, state) && level.window.p99_under_target();
}

std::string evidence_of(const LevelState& level, const State& state) {
  return text("level %d: good for %.1f s (hold %.1f s), p99 under %.1f ms in %u runs, relapses: %u",
              level.number, to_ms(level.hold.last() - *level.hold.since()) / 1000,
              to_ms(state.policy.hold) / 1000, to_ms(level.target), level.window.counts().timed,
              level.relapses.count(state.now, state.policy));
}

/// Requests that a canary could have a share of.
bool has_traffic(const State& state) {
  return state.routed_at && state.now - *state.routed_at < state.policy.canary_stage_min;
}

std::string failure_of(const Canary& canary, const State& state) {
  const LevelState& level = state.levels[canary.level()];
  return text("level %d failed as a canary at %.0f %% of the requests: %u good, %u failed, %u slow",
              level.number, 100 * canary.share(state.policy), canary.good(), canary.failures(),
              canary.slow()) +
         (canary.failures() > 0 ? level.error_text() : "");
}

std::optional<Transition> promote(State& state, std::size_t index) {
  return move_to(state, index, Cause::kPromoted, evidence_of(state.levels[index], state));
}

}  // namespace

std::optional<Transition> climb(State& state) {
  if (state.canary) {
    LevelState& level = state.levels[state.canary->level()];
    const Canary::Verdict verdict = state.canary->judge(state.now, state.policy);
    if (verdict == Canary::Verdict::kFailed) {
      state.last_canary = failure_of(*state.canary, state);
      end_canary(state);
      level.hold.break_off();
    } else if (!may_climb(level, state)) {
      end_canary(state);
    } else if (verdict == Canary::Verdict::kPassed ||
               (!has_traffic(state) && state.canary->failures() == 0)) {
      return promote(state, state.canary->level());
    }
  }
  const std::size_t end = state.canary ? state.canary->level() : *state.current;
  for (std::size_t i = 0; i < end; ++i) {
    if (!qualifies(state.levels[i], state)) continue;
    if (!has_traffic(state)) return promote(state, i);
    end_canary(state);
    state.canary.emplace(i, state.now);
    break;
  }
  return std::nullopt;
}

}  // namespace gradus::ladder
