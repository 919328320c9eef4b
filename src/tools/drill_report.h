// What the clients saw of each fault, as numbers, a table and JSON.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/drill_load.h"
#include "tools/drill_timer.h"

namespace gradus::tools {

/// One strike of a fault, as the drill saw it from outside.
struct Trial {
  TimePoint struck{};               // when the fault was there
  std::optional<Duration> back;     // from then until level 0 was current again; nothing: never
  std::vector<std::string> faults;  // what did not go as promised; empty: all did
  std::string fault_class;          // as the status told it; "": it told none
  std::size_t downs = 0;            // moves to a worse level
};

/// How soon after a fault another level has to answer.
struct Bound {
  Duration half{};  // of the trials
  Duration all{};
};

struct FaultReport {
  std::string fault;
  std::size_t trials = 0;
  std::size_t sent = 0;
  std::size_t failed = 0;  // any status but 200, or no answer
  std::size_t wrong = 0;   // 200 with another answer than the level's right one
  // From the fault to the first answer by another level than 0; of the trials that had one.
  std::optional<Duration> first_answer_p50;
  std::optional<Duration> first_answer_max;
  std::optional<Bound> bound;   // nothing: none is promised
  std::size_t within_half = 0;  // trials within bound->half
  std::size_t within_all = 0;
  Duration longest_answer{};  // from when the request was due; of those answered
  std::size_t transitions_down = 0;
  std::optional<Duration> back_at_level0;  // the longest of the trials; nothing: one never was
  std::string fault_class;                 // as the status told it; different ones by commas
  std::map<int, std::size_t> answered_by_level;
  std::vector<std::string> complaints;

  /// No request failed or was wrong, every trial went as promised, and level 0 came back each time.
  bool good() const;
};

/// @param requests by their time; each trial lasts until the next one's strike
FaultReport summarize(std::string fault, std::span<const Trial> trials,
                      std::span<const SentRequest> requests, std::optional<Bound> bound);

struct DrillReport {
  std::vector<FaultReport> faults;
  double rate = 0;     // requests a second
  Duration cpu_run{};  // one request to the CPU level alone, the median
  TimerDelay timer;    // while the load ran

  bool good() const;
};

std::string report_table(const DrillReport& report);
std::string report_json(const DrillReport& report);

}  // namespace gradus::tools
