// Brings a model's levels up: loads, warms, measures, and leaves out what does not earn its place.
// Runs on loader threads, beside live traffic; nothing that serves waits for it.
#pragma once
#include <functional>

#include "base/result.h"
#include "batch/queue.h"
#include "runtime/load.h"
#include "serving/lanes.h"
#include "serving/model.h"
#include "serving/workers.h"

namespace gradus::serving {

/// Loads one variant: OrtRuntime::load in the server, a fake in tests.
using LoadFn = std::function<Result<runtime::Loaded>(const runtime::LoadSpec&)>;

/// What loading a level needs.
struct Loading {
  const LoadFn& load;  // of levels in this process
  Workers* workers;    // of isolated ones; null: all are in this process
  Lanes& lanes;
  batch::QueueLimits limits;  // of each level's queue
  worker::SharedPool& memory;
  const Clock& clock;
};

/// Loads `slot`, runs it until it is warm, measures it against the levels that answer already
/// (docs/adr/0003-levels-left-out.md), and tells the model's ladder what came of it. When it was
/// the model's last level to come up or fail, logs which level serves and why.
/// An isolated level whose worker is lost, now or later, is lost to the ladder, and ready again
/// when it is back, as long as the model lives.
/// @return a later try may do what this one could not
bool load_level(const std::shared_ptr<Model>& model, LevelSlot& slot, const Loading& with);

/// Tries once more to bring up a level that could not, on any device or on some of several: they
/// may have appeared since. Where none can still, the ladder has the reason.
/// @return as load_level()
bool retry_level(const std::shared_ptr<Model>& model, LevelSlot& slot, const Loading& with);

/// `slot` is not loaded any more, or not at all. True: it was the model's last.
bool end_loading(Model& model, const LevelSlot& slot);

}  // namespace gradus::serving
