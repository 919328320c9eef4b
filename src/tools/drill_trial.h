// One trial: a fault strikes level 0 under load, and the ladder is watched until all is well again.
#pragma once
#include <chrono>
#include <string>

#include "tools/drill_faults.h"
#include "tools/drill_ladder.h"
#include "tools/drill_report.h"
#include "tools/drill_venue.h"

namespace gradus::tools {

/// What all trials of a fault share.
struct Stage {
  Venue& venue;
  const std::string& model;
  std::chrono::milliseconds target;  // of level 0
  double rate;                       // of the load that runs meanwhile, requests a second
  int trials;
};

/// Blocks until level 0 is current again, or long past the time by which it should be.
/// @param seen the ladder at the end of the trial before; replaced by the one at this trial's end
Trial run_trial(const DrillFault& fault, const Stage& stage, LadderView& seen);

/// What a trial's moves and its last status say against the promises of docs/drill.md; a line each.
/// @param hold of the policy; nothing: not known
std::vector<std::string> broken_promises(const DrillFault& fault,
                                         const std::vector<LadderMove>& moves,
                                         const std::string& fault_class,
                                         std::optional<Duration> hold);

/// The class of a lost worker's fault, or else the cause of the last move down; "": neither.
std::string class_of(const LadderView& before, const LadderView& after);

}  // namespace gradus::tools
