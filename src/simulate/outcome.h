// What became of a simulation: one count of every request, second by second.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ladder/events.h"
#include "ladder/state.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

/// How a request ended. Whatever was not answered in time is one of the others.
enum class Ending {
  kInTime,
  kMissed,   // its deadline passed (504)
  kRefused,  // at once: no level could make its deadline, or had room (429)
  kFailed,   // no level could answer (503)
};
inline constexpr std::size_t kEndings = 4;

/// Requests that came in one second.
struct Second {
  std::uint32_t requests = 0;
  std::array<std::uint32_t, ladder::kMaxLevels> in_time{};  // by the level that answered
  std::uint32_t missed = 0;
  std::uint32_t refused = 0;
  std::uint32_t failed = 0;

  std::uint32_t all_in_time() const;
};

/// A transition of the ladder, and how often the level it went to had relapsed by then.
struct Move {
  Duration at{};
  ladder::Transition transition;
  std::uint32_t relapses = 0;
};

/// Latencies to about 1 %, in constant room.
class Latencies {
 public:
  void add(Duration latency);
  /// Nearest rank; zero of none. @param share 0..1
  Duration percentile(double share) const;

 private:
  static constexpr int kStepsAnOctave = 64;
  static constexpr std::size_t kSteps = 40 * kStepsAnOctave;  // from 1 us on
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(kSteps);
  std::uint64_t all_ = 0;
};

struct Outcome {
  std::uint64_t requests = 0;
  std::array<std::uint64_t, kEndings> endings{};
  std::array<std::uint64_t, ladder::kMaxLevels> answered_by{};  // in time
  double quality = 0;                                           // sum over those in time
  std::uint64_t executions = 0;                                 // begun, probes apart
  std::uint64_t hedges = 0;                                     // attempts beside a running one
  std::uint64_t hedges_won = 0;                                 // … that answered
  Latencies latencies;  // of all requests; one without an answer counts as its deadline
  std::vector<Second> seconds;
  std::vector<Move> moves;
  Duration lasts{};  // that requests came for

  // What must never happen; counted where it would.
  std::uint64_t ended_late = 0;    // requests ended after their deadline
  std::uint64_t expired_runs = 0;  // requests whose run began after their deadline

  std::uint64_t count(Ending ending) const { return endings[static_cast<std::size_t>(ending)]; }
  double share(Ending ending) const;
  /// Answers in time a second.
  double goodput() const;
  /// Of all requests: in time, weighted by the quality of the level that answered.
  double effective_accuracy() const;

  void end(Duration arrival, Duration deadline, Duration at, Ending ending, std::size_t level,
           double level_quality);
};

/// When it fell off a level within `relapse_within` of the climb to it.
std::vector<Duration> flaps(const Outcome& outcome, Duration relapse_within);

/// Seconds in which under 99 % of the requests that came then were answered in time.
std::uint64_t bad_seconds(const Outcome& outcome);

/// From the last disturbance to the first of five seconds on end in which level 0 answers at least
/// 90 % of the requests in time; nothing: it never does.
std::optional<Duration> recovery(const Outcome& outcome, Duration last_disturbance);

}  // namespace gradus::simulate
