// Which provider got how many of a graph's nodes, as ONNX Runtime itself tells (docs/adr/0002).
#pragma once
#include <onnxruntime_cxx_api.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"

namespace gradus::runtime {

/// Makes the sessions created with `options` remember where their nodes went.
void record_placement(Ort::SessionOptions& options);

/// Nodes of the graph after its basic optimisations, each fused one counted for itself, most first;
/// empty for a graph without nodes. kUnavailable: this ONNX Runtime is older than 1.24 and cannot
/// tell. Throws Ort::Exception.
Result<std::vector<Placement>> placement_of(const Ort::Session& session);

/// The share of all nodes, 0..1; 0 where there are none.
double share_of(const std::vector<Placement>& placement, const std::string& provider);

}  // namespace gradus::runtime
