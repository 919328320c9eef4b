// Execution accelerators, Triton's word for the providers that a model is to be tried on first.
#pragma once
#include <vector>

#include "config/model_config.h"
#include "config/server_config.h"
#include "triton/findings.h"

namespace inference {
class ModelOptimizationPolicy;
}

namespace gradus::triton {

/// In their order. `tensorrt` and `cuda` as with Triton, and every other provider that Gradus knows
/// by name; what is unknown, or of the other kind, is refused.
/// @param server gives the names in `provider_libraries`
std::vector<config::ProviderConfig> read_accelerators(
    const inference::ModelOptimizationPolicy& policy, bool on_gpu,
    const config::ServerConfig& server, Findings& findings);

}  // namespace gradus::triton
