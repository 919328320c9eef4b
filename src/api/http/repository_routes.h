// The model repository over HTTP: its index, loads and unloads, and each model's configuration and
// statistics. Sources: Triton's extension_model_repository.md, extension_model_configuration.md,
// extension_statistics.md.
#pragma once
#include <vector>

#include "api/http/path_table.h"
#include "serving/engine.h"
#include "serving/run_lane.h"

namespace gradus::api {

/// @param engine borrowed, as `decoders`; a load's answer may outlive both
/// @param decoders decode what takes milliseconds
std::vector<Path> repository_paths(serving::Engine& engine, serving::RunLane& decoders);

}  // namespace gradus::api
