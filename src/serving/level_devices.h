// A level's sessions, one on each of its devices, in this process or in the devices' workers.
#pragma once
#include "base/result.h"
#include "runtime/load.h"
#include "serving/level_loader.h"
#include "serving/model.h"

namespace gradus::serving {

/// Loads the level on every device that it names, one after the other. It is up when one of
/// them is; what the others failed for is logged.
/// An isolated level hears of its workers' losses from then on: of its last device's the ladder is
/// told, of any other one people are; as long as the model lives.
Result<runtime::Loaded> load_on_devices(const std::shared_ptr<Model>& model, LevelSlot& slot,
                                        const Loading& with);

/// Of a level on several devices: its lane, which is its alone, runs as many at once as those that
/// live may.
void follow_devices(runtime::Backend& backend, const std::shared_ptr<Lane>& lane);

}  // namespace gradus::serving
