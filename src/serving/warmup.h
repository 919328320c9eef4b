// The warm-up samples that a model's configuration has, run on a level before it serves.
#pragma once
#include "base/result.h"
#include "config/model_config.h"
#include "serving/model.h"

namespace gradus::serving {

/// Runs each sample as often as it says, all outputs.
/// @return kInvalid: a sample does not fit the model, or its file cannot be read; else what a run
///   failed with; the text names the sample
Result<void> run_warmup(const LevelRuntime& level, const config::ModelConfig& config);

}  // namespace gradus::serving
