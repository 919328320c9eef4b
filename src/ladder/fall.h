// Down: what makes the ladder leave its current level, and for which one.
#pragma once
#include <optional>

#include "ladder/events.h"
#include "ladder/state.h"

namespace gradus::ladder {

/// Hard: the current level can no longer answer. Leaves it at once, cooldown or not.
Transition fall_hard(State& state, Cause cause, const std::string& reason);

/// Soft, failures: the breaker is open, or the error rate of the window is over its limit.
/// Constant.
std::optional<Transition> fall_for_failures(State& state);

/// Soft, slowness and overload: only to a level that would do better; without one the ladder stays
/// and is `saturated`. Linear in the window: for ticks.
std::optional<Transition> fall_for_time(State& state);

}  // namespace gradus::ladder
