// Up: which better level the ladder may climb to.
#pragma once
#include <optional>

#include "ladder/events.h"
#include "ladder/state.h"

namespace gradus::ladder {

/// Climbs to the best level that qualifies, if one does: at once where there is no traffic, else by
/// way of a canary, which this starts, moves on and ends. Constant.
std::optional<Transition> climb(State& state);

}  // namespace gradus::ladder
