// What the clients saw of each fault, as numbers, a table and JSON.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/drill_load.h"

namespace gradus::tools {

/// One strike of a fault, as the drill saw it from outside.
struct Trial {
  TimePoint struck{};            // when the fault was there
  std::optional<Duration> back;  // from then until level 0 was current again; nothing: never
  std::string complaint;         // why the trial shows nothing; empty: it went as planned
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
  Duration longest_answer{};  // from when the request was due; of those answered
  std::size_t transitions_down = 0;
  std::optional<Duration> back_at_level0;  // the longest of the trials; nothing: one never was
  std::map<int, std::size_t> answered_by_level;
  std::vector<std::string> complaints;

  /// No request failed or was wrong, every strike hit, and level 0 came back each time.
  bool good() const;
};

/// @param requests by their time; each trial lasts until the next one's strike
FaultReport summarize(std::string fault, std::span<const Trial> trials,
                      std::span<const SentRequest> requests, std::size_t transitions_down);

std::string report_table(std::span<const FaultReport> reports);
std::string report_json(std::span<const FaultReport> reports);

}  // namespace gradus::tools
