// Asking for one variant of a model on the first of several providers that really works.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "runtime/backend.h"

namespace gradus::runtime {

struct LoadSpec {
  std::filesystem::path file;                     // an ONNX model
  std::vector<config::ProviderConfig> providers;  // tried in order, each once
  std::vector<int> device_ids;  // of the provider, counted from 0; empty: its default device
  int threads = 1;              // intra-op threads of one run, 1..256
  config::ExecutionMode execution_mode = config::ExecutionMode::kSequential;
  int inter_op_threads = 0;         // in mode kParallel, 0..256; 0: usable CPUs
  bool allow_software_gpu = false;  // a Vulkan device of type CPU counts as a GPU
  config::CheckOutputs check_outputs = config::CheckOutputs::kNone;
  // Initializers with these names that the file lets a run replace become optional inputs.
  std::vector<std::string> overridable{};
};

struct ProviderFailure {
  std::string provider;  // full name
  std::string reason;    // one line
};

struct Loaded {
  std::unique_ptr<Backend> backend;
  std::string provider_used;              // full name
  double node_share = 0;                  // of the graph's nodes, that provider's, over 0.5..1
  std::vector<ProviderFailure> failures;  // of the providers tried before it
};

/// `A, B: not in this ONNX Runtime; C: no Vulkan device`: equal reasons once, in order.
std::string failures_text(const std::vector<ProviderFailure>& failures);

}  // namespace gradus::runtime
