// A level's sessions, one on each of its devices, in this process or in the devices' workers.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/load.h"
#include "serving/level_loader.h"
#include "serving/model.h"

namespace gradus::serving {

/// Added to what a load failed for where no later try can help.
inline constexpr const char* kNotAgain = "; not tried again before the model is loaded anew";

/// Loads the level on every device that it names, one after the other. It is up when one of
/// them is; what the others failed for is logged.
/// An isolated level hears of its workers' losses from then on: of its last device's the ladder is
/// told, of any other one people are; as long as the model lives.
Result<runtime::Loaded> load_on_devices(const std::shared_ptr<Model>& model, LevelSlot& slot,
                                        const Loading& with);

/// Of a level that could not be brought up: where a worker was lost meanwhile, the next try meets
/// one of the level's own.
void blame(const Model& model, const LevelSlot& slot, const Error& error, const Loading& with);

/// Of a level that is up: there are devices on which it could not be loaded. Any thread.
bool lacks_devices(const LevelSlot& slot);

/// Tries once more to load it on those that it lacks. Where it is loaded, and runs well, it joins
/// those that serve; people are told. One thread at a time for a level.
/// @return a later try may do what this one could not
bool join_devices(const std::shared_ptr<Model>& model, LevelSlot& slot, const Loading& with);

/// `device 1 fails, and is left alone: …`, of each device that gets no requests for that reason;
/// "": there is none, or the level is not loaded. Any thread.
std::string left_alone_devices(const LevelSlot& slot);

/// The same as a question, which costs no text.
bool leaves_devices_alone(const LevelSlot& slot);

/// A probe of each of them, of a level that is up: where one succeeds, requests go there again.
void try_left_alone_devices(const LevelSlot& slot);

/// Of a level on several devices: its lane, which is its alone, runs as many at once as those that
/// live may.
void follow_devices(runtime::Backend& backend, const std::shared_ptr<Lane>& lane);

}  // namespace gradus::serving
