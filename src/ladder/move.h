// The one place where the current level changes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "ladder/events.h"
#include "ladder/state.h"

namespace gradus::ladder {

/// Makes `to` current (nothing: no level) and does what follows from a transition: records cleared,
/// runs under way dropped; after a fall also the cooldown restarted, the hold of the level left
/// broken and relapses counted.
Transition move_to(State& state, std::optional<std::size_t> to, Cause cause, std::string evidence);

/// Ends the canary, if there is one. A failure was forgiven for its sake only: then its hold starts
/// again.
void end_canary(State& state);

}  // namespace gradus::ladder
