#include "fault_ep/provider.h"

#include <memory>
#include <utility>
#include <vector>

#include "fault_ep/status.h"

namespace gradus::fault {
namespace {

// ONNX Runtime makes the providers of a session on the thread that makes the session.
thread_local bool t_inside = false;

class Inside {
 public:
  Inside() { t_inside = true; }
  ~Inside() { t_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace

bool Provider::inside_another() { return t_inside; }

Provider::Provider(Setting setting, Ort::ConstSessionOptions options)
    : OrtEp{},
      setting_(std::move(setting)),
      bystander_(inside_another()),
      options_(bystander_ ? Ort::SessionOptions(nullptr) : options.Clone()) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
}

const char* ORT_API_CALL Provider::get_name(const OrtEp*) noexcept { return kProviderName; }

OrtStatus* ORT_API_CALL Provider::get_capability(OrtEp* self, const OrtGraph* graph,
                                                 OrtEpGraphSupportInfo* info) noexcept {
  return guarded([&] { static_cast<const Provider*>(self)->claim(Ort::ConstGraph(graph), info); });
}

void Provider::claim(Ort::ConstGraph graph, OrtEpGraphSupportInfo* info) const {
  // The bodies of If and Loop come along with the node that holds them.
  if (bystander_ || graph.GetParentNode() != nullptr) return;
  std::vector<const OrtNode*> nodes;
  for (const Ort::ConstNode& node : graph.GetNodes()) nodes.push_back(node);
  if (nodes.empty()) return;
  OrtNodeFusionOptions fusion{};
  fusion.ort_version_supported = ORT_API_VERSION;
  fusion.drop_constant_initializers = true;  // the inner session has its own
  Ort::ThrowOnError(
      Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(info, nodes.data(), nodes.size(), &fusion));
}

OrtStatus* ORT_API_CALL Provider::compile(OrtEp* self, const OrtGraph** graphs,
                                          const OrtNode** fused_nodes, std::size_t count,
                                          OrtNodeComputeInfo** infos, OrtNode**) noexcept {
  return guarded([&] {
    if (count != 1) {
      throw Ort::Exception("the graph came in " + std::to_string(count) + " parts, not whole",
                           ORT_EP_FAIL);
    }
    infos[0] = static_cast<const Provider*>(self)->compiled(Ort::ConstGraph(graphs[0]),
                                                            Ort::ConstNode(fused_nodes[0]));
  });
}

OrtNodeComputeInfo* Provider::compiled(Ort::ConstGraph graph, Ort::ConstNode fused) const {
  Layout& control = **setting_.control;
  obey(strike(control, Place::kCompile, setting_.devices));
  const std::string model = graph.GetModelPath();
  if (model.empty()) {
    throw Ort::Exception("the model was loaded from memory; the inner session needs its file",
                         ORT_EP_FAIL);
  }
  const Inside inside;
  auto made = std::make_unique<CompiledGraph>(setting_, model, options_, fused);
  ++control.compiled;
  return made.release();
}

void ORT_API_CALL Provider::release_compute_infos(OrtEp*, OrtNodeComputeInfo** infos,
                                                  std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) delete static_cast<CompiledGraph*>(infos[i]);
}

}  // namespace gradus::fault
