// One execution on a level: requests joined into one run and its outputs given back to each, or one
// request alone, in parts where it is larger than a batch may be.
#pragma once
#include "base/clock.h"
#include "serving/level_queue.h"
#include "serving/model.h"

namespace gradus::serving {

/// Runs the batch, whose members are Attempts, calls `ended`, and answers each or sends it to its
/// next level; tells the ladder the outcome. Members answered meanwhile are left out. On a thread
/// that may block.
void run_on_level(Model& model, LevelSlot& slot, const Batch& batch, const Ended& ended,
                  const Clock& clock);

}  // namespace gradus::serving
