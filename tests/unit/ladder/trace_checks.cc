// The policy's bounds, checked at each transition and each tick of a trace.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "trace_world.h"

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1000h};

std::string seconds(TimePoint at) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", to_ms(at - kStart) / 1000);
  return text;
}

std::string level_text(std::optional<int> level) {
  return level ? std::to_string(*level) : std::string("none");
}

bool is_soft(Cause cause) {
  return cause == Cause::kFailures || cause == Cause::kErrorRate || cause == Cause::kSlow ||
         cause == Cause::kOverload;
}

bool is_climb(Cause cause) { return cause == Cause::kPromoted || cause == Cause::kArrived; }

bool carries(const LevelState& level) {
  return !level.predicted_p99 || *level.predicted_p99 < level.target;
}

}  // namespace

void TraceWorld::note_end(SimLevel& level, const Event& event) {
  if (event.ok) {
    level.good_at = event.at;
  } else if (event.begun >= std::max(last_move_, level.counts_from)) {
    level.bad_at = event.at;
  }
}

void TraceWorld::note(std::optional<Transition> move) {
  if (!move) return;
  ++totals_.moves[move->cause];
  moves_.push_back(*move);
  const TimePoint at = move->at;
  last_move_ = at;
  if (is_soft(move->cause)) check_soft(at);
  if (is_climb(move->cause)) {
    const std::size_t to = index_of(state_, *move->to);
    check_promotion(to, at);
    if (adversary_ && random_.chance(90)) {
      const Mode mode =
          random_.one_of({Mode::kDead, Mode::kGone, Mode::kRequestsFail, Mode::kFlaky});
      const Duration lasts = random_.one_of<Duration>({1ms, 1s, 1s, 10s});
      const TimePoint strikes = at + random_.one_of<Duration>({1us, 1us, 1ms, 1s, 30s});
      levels_[to].trace.force(strikes, mode, lasts);
      push({.at = strikes, .kind = Kind::kModeChange, .level = to});
    }
  } else if (move->from) {
    const std::size_t from = index_of(state_, *move->from);
    last_fall_ = at;
    levels_[from].bad_at = at;
    if (move->to && *move->to > *move->from) {
      check_landing(*move, from, index_of(state_, *move->to));
    }
    if (move->to && *move->to < *move->from) {
      ++totals_.forced_up;
      for (std::size_t i = from + 1; i < levels_.size(); ++i) {
        if (state_.levels[i].usable()) broken(at, "climbed without a hold past a usable level");
      }
    }
  }
}

void TraceWorld::check_promotion(std::size_t to, TimePoint at) {
  SimLevel& level = levels_[to];
  if (moves_.back().cause == Cause::kPromoted && at - level.bad_at < 30s) {
    broken(at, "promoted within 30 s of a failure");
  }
  if (moves_.back().cause == Cause::kPromoted) {
    if (at - level.counts_from < 30s) broken(at, "promoted within 30 s of its return");
    if (!carries(state_.levels[to])) broken(at, "promoted a level that cannot carry the load");
    totals_.late_promotions += level.missed ? 1 : 0;
  } else if (level.missed) {
    broken(at, "promoted at once a level whose first load had failed");
  }
  const bool at_cap = state_.levels[to].relapses.count(at, state_.policy) >= 5;
  std::uint64_t recent = 1;
  for (const TimePoint earlier : level.promotions) recent += at - earlier < 600s ? 1 : 0;
  level.promotions.push_back(at);
  totals_.most_promotions = std::max(totals_.most_promotions, recent);
  totals_.promotions_at_cap += at_cap ? 1 : 0;
  if (recent > 4) broken(at, "more than 4 promotions to one level in 600 s");
  if (at_cap && recent > 1) broken(at, "2 promotions in 600 s with the hold at its cap");
}

/// Down to the best level that will do: any is good enough that carries the load; for want of time
/// only one that is predicted to be quicker, too.
void TraceWorld::check_landing(const Transition& move, std::size_t from, std::size_t to) {
  const LevelState& landing = state_.levels[to];
  const bool for_time = move.cause == Cause::kSlow || move.cause == Cause::kOverload;
  if (for_time && !carries(landing)) broken(move.at, "fell for time onto one that is no better");
  if (move.cause == Cause::kOverload && !landing.predicted_p99) {
    broken(move.at, "fell for overload onto a level of which nothing is known");
  }
  for (std::size_t i = from + 1; i < levels_.size(); ++i) {
    const LevelState& other = state_.levels[i];
    if (i == to || !other.usable()) continue;
    const bool better = i < to;
    if (for_time) {
      if (better && carries(other) && other.predicted_p99 && landing.predicted_p99 &&
          *other.predicted_p99 <= *landing.predicted_p99) {
        broken(move.at, "fell past a better level that is as quick");
      }
    } else if (carries(other) && (better || !carries(landing))) {
      broken(move.at, "fell past a level that carries the load");
    } else if (!better && !carries(landing)) {
      broken(move.at, "none carries the load, and it did not fall onto the last one");
    } else if (better && carries(landing)) {
      ++totals_.could_not_carry;
    }
  }
}

void TraceWorld::check_soft(TimePoint at) {
  if (last_fall_ && at - *last_fall_ < 60s) broken(at, "soft demotion inside a cooldown");
}

void TraceWorld::check_state(TimePoint at) {
  const bool some = std::any_of(state_.levels.begin(), state_.levels.end(),
                                [](const LevelState& level) { return level.ready(); });
  const bool current = state_.current && state_.levels[*state_.current].ready();
  if (some != current) broken(at, "the current level is not ready, or another one is");
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].up != state_.levels[i].ready()) {
      return broken(at, "level " + std::to_string(levels_[i].number) + " is " +
                            to_string(state_.levels[i].condition) + " to the ladder");
    }
  }
}

/// After a cooldown no current level stays with an open breaker, unless there is nowhere to go.
void TraceWorld::check_tick(TimePoint at) {
  if (!state_.current || (last_fall_ && at - *last_fall_ < 60s)) return;
  if (state_.levels[*state_.current].breaker.closed()) return;
  ++totals_.cooldown_ended_open;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const LevelState& other = state_.levels[i];
    if (other.usable() && (i > *state_.current || other.last_probe_ok)) {
      return broken(at, "the current level stays with an open breaker");
    }
  }
}

/// Of a dead accelerator to which nobody comes, probes tell.
void TraceWorld::check_idle(TimePoint at) {
  constexpr Duration kLong = 15s;  // a hanging probe from before, then three bad ones
  if (!state_.current || at - kStart < kLong) return;
  const SimLevel& level = levels_[*state_.current];
  const Mode mode = level.trace.at(at);
  if (!level.accelerator || (mode != Mode::kFails && mode != Mode::kProbesFail)) return;
  if (level.trace.end_of(at - kLong) <= at) return;
  if (at - std::max({last_move_, level.counts_from, level.good_at}) < kLong) return;
  ++totals_.dead_when_idle;
  if (state_.levels[*state_.current].breaker.closed()) {
    broken(at, "the current level is dead, and its breaker closed");
  }
}

void TraceWorld::broken(TimePoint at, const std::string& bound) {
  if (!fault_.empty()) return;
  fault_ = "at " + seconds(at) + ": " + bound + "\ntransitions before:\n";
  const std::size_t first = moves_.size() > 20 ? moves_.size() - 20 : 0;
  for (std::size_t i = first; i < moves_.size(); ++i) {
    const Transition& move = moves_[i];
    fault_ += "  " + seconds(move.at) + "  " + level_text(move.from) + " -> " +
              level_text(move.to) + "  " + to_string(move.cause) + "  " + move.evidence + "\n";
  }
}

}  // namespace gradus::ladder
