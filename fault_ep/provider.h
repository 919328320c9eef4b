// The execution provider of one session: claims its whole graph, whatever is in it.
#pragma once
#include <onnxruntime_cxx_api.h>

#include "fault_ep/compiled_graph.h"

namespace gradus::fault {

constexpr const char* kProviderName = "FaultExecutionProvider";

class Provider : public OrtEp {
 public:
  /// @param options copied: those of the session that this provider is for
  Provider(Setting setting, Ort::ConstSessionOptions options);

  /// True on a thread that is making a CPU session for a provider. That session's options name this
  /// provider as well, since they are the outer session's own; there it claims nothing.
  static bool inside_another();

 private:
  static const char* ORT_API_CALL get_name(const OrtEp* self) noexcept;
  static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph,
                                                OrtEpGraphSupportInfo* info) noexcept;
  static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs,
                                         const OrtNode** fused_nodes, std::size_t count,
                                         OrtNodeComputeInfo** infos,
                                         OrtNode** context_nodes) noexcept;
  static void ORT_API_CALL release_compute_infos(OrtEp* self, OrtNodeComputeInfo** infos,
                                                 std::size_t count) noexcept;

  void claim(Ort::ConstGraph graph, OrtEpGraphSupportInfo* info) const;
  OrtNodeComputeInfo* compiled(Ort::ConstGraph graph, Ort::ConstNode fused) const;

  const Setting setting_;
  const bool bystander_;  // of an inner session
  Ort::SessionOptions options_;
};

}  // namespace gradus::fault
