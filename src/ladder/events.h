// What the ladder is told, and what it answers. Levels are named by their numbers; one that the
// ladder does not have is a caller's bug and aborts. Times are steady, in the order in which they
// are told (an earlier one counts as the latest one told).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gradus::ladder {

/// The level is loaded and warm: for the first time, or again after a loss or an operator's stop.
/// Of a level that is ready already: nothing.
struct Ready {
  int level;
  TimePoint at;
};

/// The level is being loaded (again) and cannot answer meanwhile.
struct Loading {
  int level;
  TimePoint at;
};

/// Hard loss: the device is gone, the last worker died, a fault that stays, or no session can be
/// created. Of a level that was left out: nothing.
struct Lost {
  int level;
  TimePoint at;
  std::string reason;  // for people, one line
};

/// The level is not wanted: a better one is quicker, or an operator says so.
struct LeftOut {
  enum class Why { kSkipped, kDisabled };
  int level;
  TimePoint at;
  Why why;
  std::string reason;
};

/// An operator wants this level, which is ready, to be the current one until then.
struct Pinned {
  int level;
  TimePoint at;
  TimePoint until;     // TimePoint::max(): until Unpinned
  std::string reason;  // may be empty
};

struct Unpinned {
  TimePoint at;
};

/// One execution (a batch) ended. `ok` is false only if the level could not answer: a bad request,
/// a refusal of our own and a client's cancel are no outcomes.
struct Outcome {
  int level;
  TimePoint begun;
  TimePoint ended;
  Duration queue;  // the shortest wait in the batch, until `begun`
  Duration run;    // in the runtime
  bool ok;
  std::uint64_t bucket;  // the same for inputs of one shape
  /// Nobody waited for it any more, and it was ended: it is as slow as that, else it shows nothing.
  bool stopped = false;
  std::string_view error = {};  // of a failure, in its own words; for people
  bool asked_for = false;       // none of its requests may be answered by a better level
};

/// A request was planned: it starts at this level.
struct Planned {
  int level;
  TimePoint at;
  bool below_for_time;  // below the current level, only because that one would be too late
};

/// A request got no answer for want of time: its deadline passed while it waited for this level, or
/// no level could make it. For the current level that is as bad as planning it below.
struct TooLate {
  int level;
  TimePoint at;
};

/// A tiny inference without user traffic ended. A good one of a level that was lost brings it back;
/// a bad one of the current level is a failure in a row, as of a request.
struct Probe {
  int level;
  TimePoint at;  // its end
  Duration run;
  bool ok;
  std::string_view error = {};  // as of an outcome
};

/// A predicted p99 without bound: the load is more than the level can do.
inline constexpr Duration kCannotCarry = Duration::max();

/// What the level's p99, queueing included, would be at the present arrival rate (predict.h).
/// Nothing: unknown, the level counts as able to carry the load.
struct Prediction {
  int level;
  std::optional<Duration> p99;
};

/// Time passes; at least once a second. Cooldowns end here, slowness and overload are weighed.
struct Tick {
  TimePoint at;
};

enum class Cause {
  kStarted,   // the first level that can answer
  kArrived,   // a better level, for the first time
  kPromoted,  // a better level has held
  kReturned,  // no level could answer, now one can
  kHardLoss,
  kFailures,   // in a row: the breaker is open
  kErrorRate,  // in the window
  kSlow,
  kOverload,
  kLeftOut,  // skipped, disabled, or loaded anew
  kPinned,   // an operator says so
};

/// For logs and metrics: `started`, `hard_loss`, …
const char* to_string(Cause cause);

/// The current level changed. No level (`nullopt`): none can answer.
struct Transition {
  TimePoint at;
  std::optional<int> from;
  std::optional<int> to;
  Cause cause;
  std::string evidence;  // one line with numbers
};

}  // namespace gradus::ladder
