// Brings a model's levels up: loads, warms, measures, and leaves out what does not earn its place.
// Runs on loader threads, beside live traffic; nothing that serves waits for it.
#pragma once
#include <functional>

#include "base/result.h"
#include "runtime/load.h"
#include "serving/lanes.h"
#include "serving/model.h"

namespace gradus::serving {

/// Loads one variant: OrtRuntime::load in the server, a fake in tests.
using LoadFn = std::function<Result<runtime::Loaded>(const runtime::LoadSpec&)>;

/// Loads `slot`, runs it until it is warm, measures it against the levels that answer already
/// (docs/adr/0003-levels-left-out.md), and tells the model's ladder what came of it. When it was
/// the model's last level to come up or fail, logs which level serves and why.
void load_level(Model& model, LevelSlot& slot, const LoadFn& load, Lanes& lanes,
                const Clock& clock);

/// `slot` is not loaded any more, or not at all. True: it was the model's last.
bool end_loading(Model& model, const LevelSlot& slot);

}  // namespace gradus::serving
