#include "triton/accelerators.h"

#include <model_config.pb.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/json_text.h"
#include "config/provider_names.h"
#include "triton/sorted_keys.h"

namespace gradus::triton {
namespace {

constexpr const char* kTensorrt = "TensorrtExecutionProvider";

using Options = std::map<std::string, std::string>;

// Triton's names for options of ONNX Runtime's TensorRT provider; those that begin with `trt_` are
// ONNX Runtime's own.
void add_tensorrt_option(const std::string& key, const std::string& value, Options& options,
                         const std::string& path, Findings& findings) {
  static const Options names = {
      {"max_workspace_size_bytes", "trt_max_workspace_size"},
      {"int8_calibration_table_name", "trt_int8_calibration_table_name"},
      {"int8_use_native_calibration_table", "trt_int8_use_native_calibration_table"}};
  static const Options modes = {{"FP16", "trt_fp16_enable"},
                                {"BF16", "trt_bf16_enable"},
                                {"INT8", "trt_int8_enable"},
                                {"FP32", ""}};
  if (key == "precision_mode") {
    const auto mode = modes.find(value);
    if (mode == modes.end()) {
      findings.refuse(
          path, "precision_mode " + json_string(value) + ": must be FP32, FP16, BF16 or INT8");
    } else if (!mode->second.empty()) {
      options[mode->second] = "1";
    }
  } else if (const auto name = names.find(key); name != names.end()) {
    options[name->second] = value;
  } else if (key.starts_with("trt_")) {
    options[key] = value;
  } else {
    findings.refuse(path, "unknown parameter " + json_string(key) +
                              "; known: precision_mode, max_workspace_size_bytes, "
                              "int8_calibration_table_name, int8_use_native_calibration_table, and "
                              "ONNX Runtime's options trt_…");
  }
}

}  // namespace

std::vector<config::ProviderConfig> read_accelerators(
    const inference::ModelOptimizationPolicy& policy, bool on_gpu,
    const config::ServerConfig& server, Findings& findings) {
  const auto& both = policy.execution_accelerators();
  const auto& accelerators =
      on_gpu ? both.gpu_execution_accelerator() : both.cpu_execution_accelerator();
  std::vector<std::string> extra;
  for (const auto& [name, path] : server.provider_libraries) extra.push_back(name);
  std::vector<config::ProviderConfig> providers;
  const std::string list = std::string("optimization.execution_accelerators.") +
                           (on_gpu ? "gpu" : "cpu") + "_execution_accelerator[";
  for (int i = 0; i < accelerators.size(); ++i) {
    const auto& accelerator = accelerators[i];
    const std::string path = list + std::to_string(i) + "]";
    const std::string& name = accelerator.name();
    if (name == "auto_mixed_precision" || name == "gpu_io") {
      findings.refuse(path + ".name", json_string(name) +
                                          " is TensorFlow's; use a variant of the model in "
                                          "half precision, model.fp16.onnx");
      continue;
    }
    const auto provider = config::full_provider_name(name, extra);
    if (!provider) {
      findings.refuse(path + ".name", config::unknown_provider(name, extra));
      continue;
    }
    if (config::is_gpu_provider(*provider) != on_gpu) {
      findings.refuse(path + ".name", *provider + " belongs in " + (on_gpu ? "cpu" : "gpu") +
                                          "_execution_accelerator");
      continue;
    }
    config::ProviderConfig config{*provider, {}};
    for (const std::string& key : sorted_keys(accelerator.parameters())) {
      const std::string& value = accelerator.parameters().at(key);
      if (*provider == kTensorrt) {
        add_tensorrt_option(key, value, config.options, path + ".parameters", findings);
      } else {
        config.options[key] = value;
      }
    }
    const bool twice = std::ranges::any_of(
        providers, [&](const config::ProviderConfig& other) { return other.name == *provider; });
    if (twice) {
      findings.refuse(path + ".name", *provider + " is named twice");
    } else {
      providers.push_back(std::move(config));
    }
  }
  return providers;
}

}  // namespace gradus::triton
