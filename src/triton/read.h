// A model's folder as Triton's users write it: `config.pbtxt`, and `gradus.yaml` over it.
#pragma once
#include "config/faults.h"
#include "config/model_config.h"
#include "config/server_config.h"
#include "serving/repository.h"

namespace gradus::triton {

/// A serving::ReadConfig. A folder without config.pbtxt is read as its gradus.yaml alone says.
/// Faults name the file, the line where there is one, and the field; all of them are told at once,
/// but for those of a text that cannot be parsed. `ModelConfig::notes` has what has no effect.
config::Loaded<config::ModelConfig> read_config(const serving::ConfigSource& source,
                                                const config::ServerConfig& server);

}  // namespace gradus::triton
