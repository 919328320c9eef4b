#include "ladder/step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ladder/climb.h"
#include "ladder/fall.h"
#include "ladder/move.h"

namespace gradus::ladder {
namespace {

using Move = std::optional<Transition>;

void pass_time(State& state, TimePoint at) { state.now = std::max(state.now, at); }

/// The level that is pinned and ready, if there is one.
std::optional<std::size_t> pinned_level(State& state) {
  if (state.pin && state.now >= state.pin->until) state.pin.reset();
  if (!state.pin || !state.levels[state.pin->level].ready()) return std::nullopt;
  return state.pin->level;
}

Move move_to_pinned(State& state, std::size_t index) {
  end_canary(state);
  if (state.current == index) return std::nullopt;
  std::string evidence = "level " + std::to_string(state.levels[index].number) + " is pinned";
  if (!state.pin->reason.empty()) evidence += ": " + state.pin->reason;
  return move_to(state, index, Cause::kPinned, std::move(evidence));
}

/// An operator's word goes before all that is soft; then up before down: a level that may climb
/// need not fall first.
Move settle(State& state) {
  if (!state.current) return std::nullopt;
  if (const auto pinned = pinned_level(state)) return move_to_pinned(state, *pinned);
  if (Move up = climb(state)) return up;
  if (state.now < state.cooldown_until) return std::nullopt;
  return fall_for_failures(state);
}

/// The level cannot answer from now on; only the current level's leaving is a transition.
Move leave(State& state, std::size_t index, Condition condition, Cause cause,
           const std::string& reason) {
  LevelState& level = state.levels[index];
  level.condition = condition;
  level.reason = reason;
  level.counts_from = state.now;
  level.hold.break_off();
  level.last_probe_ok = false;
  if (state.canary && state.canary->level() == index) end_canary(state);
  if (state.current != index) return std::nullopt;
  return fall_hard(state, cause, reason);
}

/// Good news of a level that is ready: a completed hold closes its breaker.
void prove(LevelState& level, TimePoint begun, const State& state) {
  level.good_at = state.now;
  level.hold.succeed(begun, state.now, state.policy);
  if (level.breaker.closed() || !level.hold.complete(state.now, state.policy)) return;
  level.breaker.close();
  level.forget_failures();
}

/// One more failure in a row, noted before: opens the breaker, or restarts its rest.
void fail_once_more(LevelState& level, const State& state) {
  const std::uint32_t in_row = level.failures_in_row + level.bad_probes_in_row;
  if (level.breaker.closed() && in_row < state.policy.consecutive_failures) return;
  level.breaker.open(state.now, state.policy.breaker_open);
}

}  // namespace

Move step(State& state, const Ready& event) {
  pass_time(state, event.at);
  const std::size_t index = index_of(state, event.level);
  LevelState& level = state.levels[index];
  if (level.ready()) return std::nullopt;
  const bool first_time = !level.arrived && !level.missed;
  level.condition = Condition::kReady;
  level.reason.clear();
  level.arrived = true;
  level.last_probe_ok = true;
  level.good_at = state.now;
  level.last_error.clear();
  level.clear_record();
  level.warmth.forget();
  level.counts_from = state.now;
  level.hold.succeed(state.now, state.now, state.policy);

  const std::string evidence = "level " + std::to_string(level.number) + " is loaded and warm";
  if (!state.current) {
    return move_to(state, index, state.served_before ? Cause::kReturned : Cause::kStarted,
                   evidence);
  }
  if (const auto pinned = pinned_level(state)) return move_to_pinned(state, *pinned);
  if (first_time && index < *state.current) return move_to(state, index, Cause::kArrived, evidence);
  return std::nullopt;
}

Move step(State& state, const Loading& event) {
  pass_time(state, event.at);
  const std::size_t index = index_of(state, event.level);
  return leave(state, index, Condition::kLoading, Cause::kLeftOut, "it is loaded anew");
}

Move step(State& state, const Lost& event) {
  pass_time(state, event.at);
  const std::size_t index = index_of(state, event.level);
  LevelState& level = state.levels[index];
  if (level.left_out()) return std::nullopt;
  if (level.arrived) {
    level.breaker.open(state.now, state.policy.breaker_open);
  } else {
    level.missed = true;
  }
  return leave(state, index, Condition::kUnavailable, Cause::kHardLoss, event.reason);
}

Move step(State& state, const LeftOut& event) {
  pass_time(state, event.at);
  const Condition condition =
      event.why == LeftOut::Why::kSkipped ? Condition::kSkipped : Condition::kDisabled;
  return leave(state, index_of(state, event.level), condition, Cause::kLeftOut, event.reason);
}

Move step(State& state, const Pinned& event) {
  pass_time(state, event.at);
  state.pin = Pin{index_of(state, event.level), event.until, event.reason};
  return settle(state);
}

Move step(State& state, const Unpinned& event) {
  pass_time(state, event.at);
  state.pin.reset();
  return settle(state);
}

Move step(State& state, const Outcome& event) {
  pass_time(state, event.ended);
  const std::size_t index = index_of(state, event.level);
  LevelState& level = state.levels[index];

  // Facts, whatever the policy makes of them.
  bool steady = false;
  if (event.ok) {
    if (!event.stopped) {
      ++level.served;
      if (!event.asked_for) level.last_answer = state.now;
    }
    steady = level.warmth.note_run(event.bucket, event.begun, event.ended, state.policy);
  } else {
    ++level.failed;
    level.warmth.note_busy(event.ended);
  }
  if (!level.ready() || event.begun < level.counts_from) return std::nullopt;

  level.window.add({state.now, event.run, event.queue, event.ok, false, steady});
  const bool is_canary = state.canary && state.canary->level() == index;
  if (event.ok) {
    if (!event.stopped) {
      level.forget_failures();
      level.breaker.succeed(event.begun);
      prove(level, event.begun, state);
    }
    if (is_canary) state.canary->answered(steady && event.queue + event.run > level.target);
  } else {
    ++level.failures_in_row;
    level.note_error(event.error);
    fail_once_more(level, state);
    if (is_canary) {
      state.canary->failed();
    } else {
      level.hold.break_off();
    }
  }
  if (state.current == index) {
    state.overload.note(event.queue, state.now, level.target, state.policy);
  }
  return settle(state);
}

Move step(State& state, const Probe& event) {
  pass_time(state, event.at);
  const std::size_t index = index_of(state, event.level);
  LevelState& level = state.levels[index];
  const TimePoint begun = event.at - event.run;
  level.warmth.note_busy(event.at);
  if (begun < level.counts_from) return std::nullopt;
  if (level.condition == Condition::kUnavailable && event.ok) {
    return step(state, Ready{event.level, event.at});
  }
  if (!level.ready()) return std::nullopt;

  level.last_probe_ok = event.ok;
  level.window.add({state.now, event.run, Duration::zero(), event.ok, true, false});
  if (event.ok) {
    level.bad_probes_in_row = 0;
    prove(level, begun, state);
    if (state.canary && state.canary->level() == index) state.canary->probe_succeeded();
  } else {
    level.hold.break_off();
    level.note_error(event.error);
    if (state.current == index) {
      ++level.bad_probes_in_row;
      fail_once_more(level, state);
    }
  }
  return settle(state);
}

Move step(State& state, const Tick& event) {
  pass_time(state, event.at);
  for (LevelState& level : state.levels) level.window.expire(state.now);
  if (Move move = settle(state)) return move;
  if (!state.current || state.now < state.cooldown_until || pinned_level(state)) {
    return std::nullopt;
  }
  return fall_for_time(state);
}

void step(State& state, const Planned& event) {
  pass_time(state, event.at);
  const std::size_t index = index_of(state, event.level);
  // A plan from before a fall may name what is the current level by now: no lack of time there.
  state.planned_below.note(event.below_for_time && state.current && index > *state.current,
                           state.now);
}

void step(State& state, const TooLate& event) {
  pass_time(state, event.at);
  if (state.current == index_of(state, event.level)) state.planned_below.note(true, state.now);
}

void step(State& state, const Prediction& event) {
  state.levels[index_of(state, event.level)].predicted_p99 = event.p99;
}

}  // namespace gradus::ladder
