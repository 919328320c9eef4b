#include "runtime/ort/placement.h"

#include <algorithm>
#include <cstdint>

#include "runtime/ort/api_since_24.h"

namespace gradus::runtime {

void record_placement(Ort::SessionOptions& options) {
  options.AddConfigEntry("session.record_ep_graph_assignment_info", "1");
}

Result<std::vector<Placement>> placement_of(const Ort::Session& session) {
  const ApiSince24 api;
  if (!api) {
    return fail(Code::kUnavailable, "ONNX Runtime " + Ort::GetVersionString() +
                                        " cannot tell where it placed the nodes, 1.24 can");
  }
  const OrtEpAssignedSubgraph* const* subgraphs = nullptr;
  std::size_t count = 0;
  Ort::ThrowOnError(api.session_assignment()(session, &subgraphs, &count));
  std::vector<Placement> placement;
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    Ort::ThrowOnError(api.subgraph_ep_name()(subgraphs[i], &name));
    const OrtEpAssignedNode* const* nodes = nullptr;
    std::size_t node_count = 0;
    Ort::ThrowOnError(api.subgraph_nodes()(subgraphs[i], &nodes, &node_count));
    auto known = std::ranges::find(placement, name, &Placement::provider);
    if (known == placement.end()) known = placement.insert(known, Placement{name, 0});
    known->nodes += static_cast<std::uint32_t>(node_count);
  }
  std::ranges::stable_sort(placement, std::ranges::greater{}, &Placement::nodes);
  return placement;
}

double share_of(const std::vector<Placement>& placement, const std::string& provider) {
  std::uint64_t all = 0;
  std::uint64_t own = 0;
  for (const Placement& part : placement) {
    all += part.nodes;
    if (part.provider == provider) own += part.nodes;
  }
  return all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(all);
}

}  // namespace gradus::runtime
