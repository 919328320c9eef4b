// A model that is served, as Triton's clients ask for its configuration.
#pragma once
#include <string>

#include "base/result.h"
#include "config/model_config.h"
#include "serving/engine.h"

namespace gradus::triton {

/// Triton's ModelConfig as JSON, for LadderEngine::Options::describe: what was given in
/// config.pbtxt, completed from the model and from the ladder as it is. Names as in the message,
/// enumerators by name, 64-bit integers as numbers, as Triton's `/config` has them; protobuf's JSON
/// reader takes it back.
/// @param info its signature is the one that clients see (serving/declared.h) or the model's own:
///   both give the same
Result<std::string> describe(const config::ModelConfig& config, const serving::ModelInfo& info);

}  // namespace gradus::triton
