// Everything that the policy remembers of one model's ladder: a value, changed by the functions of
// this room only. One owner at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/policy_config.h"
#include "ladder/breaker.h"
#include "ladder/canary.h"
#include "ladder/hold.h"
#include "ladder/overload.h"
#include "ladder/planned_below.h"
#include "ladder/relapses.h"
#include "ladder/warmth.h"
#include "ladder/window.h"

namespace gradus::ladder {

inline constexpr std::size_t kMaxLevels = 8;

/// What a level is doing; whether requests get there is also up to its breaker.
enum class Condition {
  kLoading,
  kReady,
  kUnavailable,  // lost, or it could not be loaded
  kSkipped,      // a better level is quicker
  kDisabled,     // by an operator
};

const char* to_string(Condition condition);  // loading, ready, …

struct LevelSpec {
  int level = 0;  // its number, 0 = best
  Duration target_p99{};
  bool probed_when_idle = false;  // it can die unnoticed: an accelerator
};

struct LevelState {
  LevelState(const LevelSpec& spec, const config::PolicyConfig& policy, TimePoint start)
      : number(spec.level),
        target(spec.target_p99),
        probed_when_idle(spec.probed_when_idle),
        counts_from(start),
        window(policy, target) {}

  bool ready() const { return condition == Condition::kReady; }
  bool left_out() const {
    return condition == Condition::kSkipped || condition == Condition::kDisabled;
  }
  /// The ladder may step onto it.
  bool usable() const { return ready() && breaker.closed(); }
  /// No prediction speaks against it.
  bool carries_load() const { return !predicted_p99 || *predicted_p99 < target; }
  /// Starts anew to count what speaks for or against the level.
  void clear_record() {
    window.clear();
    forget_failures();
  }
  void forget_failures() { failures_in_row = bad_probes_in_row = 0; }
  /// Keeps one line of it.
  void note_error(std::string_view error);
  /// `, last error: …` after the numbers of its failures, or "".
  std::string error_text() const;

  int number;
  Duration target;
  bool probed_when_idle;
  Condition condition = Condition::kLoading;
  std::string reason;     // why it is not ready; empty when it is
  bool arrived = false;   // was ready once
  bool missed = false;    // its first load failed: when it comes at last, it comes by its hold
  TimePoint counts_from;  // runs begun earlier tell nothing: the last transition, or its loss

  Window window;
  Warmth warmth;
  Breaker breaker;
  Hold hold;
  Relapses relapses;
  std::uint32_t failures_in_row = 0;  // of requests …
  std::uint32_t bad_probes_in_row =
      0;                       // … and of probes while it was current, which count with them
  bool last_probe_ok = false;  // warming up counts as one
  std::string last_error;      // since it was last loaded, of a request or probe; for people
  std::optional<Duration> predicted_p99;

  std::uint64_t served =
      0;  // executions, not requests; all of them, whatever the policy made of it
  std::uint64_t failed = 0;
  std::optional<TimePoint> last_answer;  // to who would have taken a better level's
  TimePoint good_at{};                   // last answer or good probe that counts; warming up is one
};

/// An operator's wish: this level is the current one while it is ready.
struct Pin {
  std::size_t level;  // index
  TimePoint until;    // TimePoint::max(): for ever
  std::string reason;
};

struct State {
  config::PolicyConfig policy;
  std::vector<LevelState> levels;      // best first
  std::optional<std::size_t> current;  // index; nothing: no level can answer
  TimePoint start{};
  TimePoint now{};                     // the latest time told
  TimePoint cooldown_until{};          // no soft demotion before
  Overload overload;                   // of the current level
  PlannedBelow planned_below;          // the current level, for want of time
  bool saturated = false;              // slow or overloaded, and no lower level would do better
  std::optional<Canary> canary;        // the level that is about to be promoted
  std::string last_canary;             // how the last one failed, for people
  std::optional<TimePoint> routed_at;  // the last request
  std::optional<Pin> pin;              // an operator's
  bool served_before = false;          // some level was current once
};

/// @param levels 1 to kMaxLevels, ascending by number (gaps are fine), targets over 0; else
/// kInvalid
/// @param policy as validated by config
Result<State> make_state(std::span<const LevelSpec> levels, const config::PolicyConfig& policy,
                         TimePoint start);

/// Position of the level with this number; aborts if there is none.
std::size_t index_of(const State& state, int level);

}  // namespace gradus::ladder
