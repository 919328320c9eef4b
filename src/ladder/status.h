// What others ask of a ladder: how it is, whether to alert, what to probe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ladder/breaker.h"
#include "ladder/state.h"

namespace gradus::ladder {

/// An answer of this level is worse than the best level that is wanted (neither skipped nor
/// disabled).
bool degraded_at(const State& state, int level);
/// Of the current level; true when no level can answer.
bool degraded(const State& state);

/// Alerts may go out: every level is ready, has failed or is left out, or `start_grace` has passed.
bool alerts_due(const State& state, TimePoint at);
/// The last level answered within `urgent_within`, and is not the only one: minimum service. That
/// to clients who want no better level is none.
bool urgent(const State& state, TimePoint at);

/// The level should be probed about every `probe_every`: something depends on how it does, and
/// live traffic does not tell.
bool wants_probe(const State& state, int level, TimePoint at);

struct LevelStatus {
  int level;
  Condition condition;
  std::string reason;  // why it is not ready, or its last error while its breaker is not closed
  BreakerState breaker;
  std::optional<TimePoint> next_trial;  // of an open breaker
  Duration target_p99;
  std::optional<Duration> p99;  // of the runs in the window, probes too, queueing apart
  std::uint64_t served;         // executions that answered
  std::uint64_t failed;         // executions that failed
  std::uint32_t relapses;
  /// Of the level that is about to be promoted: the share of live traffic that it gets.
  std::optional<double> canary_share;
  /// Of a ready level that is better than the current one: no promotion before, if all goes well.
  std::optional<TimePoint> promotion_from;
};

struct Status {
  std::optional<int> current;  // nothing: no level can answer
  bool degraded;
  bool saturated;
  bool urgent;
  std::optional<TimePoint> cooldown_until;  // while it lasts
  std::optional<int> pinned;                // by an operator, ready or not …
  std::optional<TimePoint> pinned_until;    // … until then; nothing: until it is unpinned
  std::string pin_reason;                   // … because
  std::string last_canary;                  // how the last canary failed; empty: none did
  std::vector<LevelStatus> levels;          // best first
};

/// For people; sorts the windows, so not for every request.
Status status(const State& state, TimePoint at);

}  // namespace gradus::ladder
