#include "ladder/fall.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "ladder/move.h"

namespace gradus::ladder {
namespace {

using Index = std::optional<std::size_t>;

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

template <class Predicate>
Index first_in(const State& state, std::size_t begin, std::size_t end, Predicate fits) {
  for (std::size_t i = begin; i < end; ++i) {
    if (fits(state.levels[i])) return i;
  }
  return std::nullopt;
}

/// The best worse level that can carry the load; if none can, the worst one: it is the quickest.
Index worse_level(const State& state) {
  const std::size_t begin = *state.current + 1;
  const std::size_t end = state.levels.size();
  const Index best = first_in(state, begin, end, [](const LevelState& level) {
    return level.usable() && level.carries_load();
  });
  if (best) return best;
  for (std::size_t i = end; i-- > begin;) {
    if (state.levels[i].usable()) return i;
  }
  return std::nullopt;
}

/// Where to go when the current level cannot answer: down; else to a better level, without its
/// hold, for nothing else is left; else to the ready level whose breaker is open longest.
Index any_other(const State& state) {
  if (const Index worse = worse_level(state)) return worse;
  const Index better =
      first_in(state, 0, *state.current, [](const LevelState& level) { return level.usable(); });
  if (better) return better;
  Index open;
  for (std::size_t i = 0; i < state.levels.size(); ++i) {
    if (i == *state.current || !state.levels[i].ready()) continue;
    if (!open || state.levels[i].breaker.opened_at() < state.levels[*open].breaker.opened_at()) {
      open = i;
    }
  }
  return open;
}

bool error_rate_high(const LevelState& level, const config::PolicyConfig& policy) {
  const Window::Counts& counts = level.window.counts();
  return counts.outcomes >= policy.error_rate_outcomes &&
         counts.failures > policy.error_rate * counts.outcomes;
}

bool slow(const LevelState& level, const config::PolicyConfig& policy) {
  const Window::Counts& counts = level.window.counts();
  return counts.samples >= policy.slow_samples && counts.slow >= policy.slow_count &&
         counts.slow > policy.slow_share * counts.samples;
}

/// Whether `lower` would be quicker than the current level and within its own target. A prediction
/// tells; without one slowness is weighed by what was measured on it, if anything was, and overload
/// not at all: what a level does without load says nothing about what it does under too much of it.
bool does_better(const LevelState& lower, Duration current_p99, Cause cause) {
  if (!lower.usable()) return false;
  if (!lower.predicted_p99 && cause == Cause::kOverload) return false;
  const std::optional<Duration> expected =
      lower.predicted_p99 ? lower.predicted_p99 : lower.window.p99_run();
  return !expected || (*expected < lower.target && *expected < current_p99);
}

/// For overload the prediction counts too: what is measured are the requests that still got there.
Duration p99_of_current(const LevelState& level, Cause cause) {
  const std::optional<Duration> measured = level.window.p99_queue_and_run();
  if (cause == Cause::kSlow || !level.predicted_p99) return measured.value_or(Duration::max());
  return std::max(measured.value_or(Duration::zero()), *level.predicted_p99);
}

std::string evidence_of_failures(const LevelState& level) {
  const std::uint32_t in_row = level.failures_in_row + level.bad_probes_in_row;
  if (in_row == 0) return text("level %d: its breaker is open", level.number) + level.error_text();
  if (level.bad_probes_in_row == 0) {
    return text("level %d: %u failures in a row", level.number, in_row) + level.error_text();
  }
  return text("level %d: %u failures in a row, %u of them probes", level.number, in_row,
              level.bad_probes_in_row) +
         level.error_text();
}

std::string evidence_of_error_rate(const LevelState& level, const config::PolicyConfig& policy) {
  const Window::Counts& counts = level.window.counts();
  return text("level %d: %u of %u executions failed (%.1f %%, limit %.1f %%)", level.number,
              counts.failures, counts.outcomes, 100.0 * counts.failures / counts.outcomes,
              100 * policy.error_rate) +
         level.error_text();
}

std::string ms_text(Duration p99) {
  return p99 == kCannotCarry ? std::string("without bound") : text("%.1f ms", to_ms(p99));
}

std::string evidence_of_slowness(const LevelState& level, Duration p99) {
  const Window::Counts& counts = level.window.counts();
  return text("level %d: %u of %u runs took over %.1f ms, p99 %s, target %.1f ms", level.number,
              counts.slow, counts.samples, to_ms(level.window.slow_limit()), ms_text(p99).c_str(),
              to_ms(level.target));
}

std::string evidence_of_overload(const State& state, Duration p99) {
  const LevelState& level = state.levels[*state.current];
  const PlannedBelow::Counts planned = state.planned_below.counts(state.now);
  const std::string why =
      state.planned_below.too_many(state.now, state.policy)
          ? text("%u of %u requests have no time for it", planned.below, planned.requests)
          : std::string("every run waits long");
  return text("level %d: %s, p99 with queueing %s, target %.1f ms", level.number, why.c_str(),
              ms_text(p99).c_str(), to_ms(level.target));
}

}  // namespace

Transition fall_hard(State& state, Cause cause, const std::string& reason) {
  std::string evidence = text("level %d: ", state.levels[*state.current].number) + reason;
  return move_to(state, any_other(state), cause, std::move(evidence));
}

std::optional<Transition> fall_for_failures(State& state) {
  const LevelState& level = state.levels[*state.current];
  const bool open = !level.breaker.closed();
  if (!open && !error_rate_high(level, state.policy)) return std::nullopt;
  Index to = worse_level(state);
  if (!to && open) {
    to = first_in(state, 0, *state.current,
                  [](const LevelState& better) { return better.usable() && better.last_probe_ok; });
  }
  if (!to) return std::nullopt;
  if (open) return move_to(state, to, Cause::kFailures, evidence_of_failures(level));
  return move_to(state, to, Cause::kErrorRate, evidence_of_error_rate(level, state.policy));
}

std::optional<Transition> fall_for_time(State& state) {
  const LevelState& level = state.levels[*state.current];
  const bool is_slow = slow(level, state.policy);
  state.saturated = is_slow || state.overload.lasts(state.now, state.policy) ||
                    state.planned_below.too_many(state.now, state.policy);
  if (!state.saturated) return std::nullopt;
  const Cause cause = is_slow ? Cause::kSlow : Cause::kOverload;
  const Duration p99 = p99_of_current(level, cause);
  const Index to =
      first_in(state, *state.current + 1, state.levels.size(),
               [&](const LevelState& lower) { return does_better(lower, p99, cause); });
  if (!to) return std::nullopt;
  std::string evidence =
      is_slow ? evidence_of_slowness(level, p99) : evidence_of_overload(state, p99);
  return move_to(state, to, cause, std::move(evidence));
}

}  // namespace gradus::ladder
