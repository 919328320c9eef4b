// An outcome as a picture over time (SVG, no script, no font of its own).
#pragma once
#include <string>

#include "simulate/outcome.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

/// Four strips over one time axis: the current level and who answered; requests and goodput; what
/// was not answered in time; effective accuracy. Faults are bands behind them.
/// @param relapse_within what counts as a flap
std::string timeline(const Scenario& scenario, const Outcome& outcome, Duration relapse_within);

}  // namespace gradus::simulate
