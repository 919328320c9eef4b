// What config.pbtxt says of where and how the model runs: instance groups, dynamic batching with
// its queue, execution accelerators, parameters. It changes the default ladder; a ladder of one's
// own
// (`levels:`) replaces it.
#pragma once
#include <functional>

#include "config/declared.h"
#include "config/model_config.h"
#include "config/server_config.h"
#include "triton/findings.h"

namespace inference {
class ModelConfig;
}

namespace gradus::triton {

/// @param declared what `read_tensors` found: whether there is a batch dimension, and its bound
/// @param server gives the names in `provider_libraries`
/// @return what is to be done to a config that holds the default ladder
std::function<void(config::ModelConfig&)> read_levels(const inference::ModelConfig& message,
                                                      const config::Declared& declared,
                                                      const config::ServerConfig& server,
                                                      Findings& findings);

}  // namespace gradus::triton
