// A model as this provider runs it: a session on the CPU provider behind one fused node, which has
// the names of the model's inputs and outputs, and faults by order.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fault_ep/control_file.h"
#include "fault_ep/injection.h"

namespace gradus::fault {

struct Setting {
  std::shared_ptr<ControlFile> control;
  std::uint32_t devices = 1;  // bit i: device i
};

class CompiledGraph : public OrtNodeComputeInfo {
 public:
  /// @param model the file that the graph came from
  /// @param options those of the session that asks, so that the CPU's session has its threads and
  ///   optimisations
  /// @param fused the node that stands for the whole graph
  /// Throws Ort::Exception.
  CompiledGraph(Setting setting, const std::string& model, const Ort::SessionOptions& options,
                Ort::ConstNode fused);

 private:
  struct Input {
    std::string name;
    std::size_t from;  // of the fused node's inputs
  };

  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self,
                                              OrtNodeComputeContext* context,
                                              void** state) noexcept;
  static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* self, void* state,
                                         OrtKernelContext* context) noexcept;
  static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state) noexcept;

  void find_inputs(Ort::ConstNode fused);
  /// The first input's first dimension.
  std::int64_t samples(const Ort::KernelContext& context) const;
  void run(const Ort::KernelContext& context) const;

  const Setting setting_;
  Ort::Session session_{nullptr};
  Ort::RunOptions run_options_;
  std::vector<Input> inputs_;
  std::vector<std::string> outputs_;  // in the fused node's order
  std::vector<const char*> input_names_;
  std::vector<const char*> output_names_;
};

}  // namespace gradus::fault
