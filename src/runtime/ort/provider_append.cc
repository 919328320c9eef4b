#include "runtime/ort/provider_append.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/provider_names.h"

namespace gradus::runtime {
namespace {

using Options = std::unordered_map<std::string, std::string>;

// The generic call knows providers by other names than GetAvailableProviders does.
std::string short_name(const std::string& provider) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kSpecial = {{
      {"AzureExecutionProvider", "AZURE"},
      {"DmlExecutionProvider", "DML"},
      {"NvTensorRTRTXExecutionProvider", "NvTensorRtRtx"},
      {"WebGpuExecutionProvider", "WebGPU"},
      {"XnnpackExecutionProvider", "XNNPACK"},
  }};
  for (const auto& [full, name] : kSpecial) {
    if (provider == full) return std::string(name);
  }
  constexpr std::string_view kSuffix = "ExecutionProvider";
  return provider.ends_with(kSuffix) ? provider.substr(0, provider.size() - kSuffix.size())
                                     : provider;
}

std::pair<std::vector<const char*>, std::vector<const char*>> keys_and_values(const Options& map) {
  std::pair<std::vector<const char*>, std::vector<const char*>> lists;
  for (const auto& [key, value] : map) {
    lists.first.push_back(key.c_str());
    lists.second.push_back(value.c_str());
  }
  return lists;
}

void append_cuda(Ort::SessionOptions& session, const Options& options) {
  OrtCUDAProviderOptionsV2* raw = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreateCUDAProviderOptions(&raw));
  const std::unique_ptr<OrtCUDAProviderOptionsV2, void (*)(OrtCUDAProviderOptionsV2*)> cuda(
      raw, [](auto* p) { Ort::GetApi().ReleaseCUDAProviderOptions(p); });
  const auto [keys, values] = keys_and_values(options);
  Ort::ThrowOnError(
      Ort::GetApi().UpdateCUDAProviderOptions(raw, keys.data(), values.data(), keys.size()));
  session.AppendExecutionProvider_CUDA_V2(*cuda);
}

void append_tensorrt(Ort::SessionOptions& session, const Options& options) {
  OrtTensorRTProviderOptionsV2* raw = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreateTensorRTProviderOptions(&raw));
  const std::unique_ptr<OrtTensorRTProviderOptionsV2, void (*)(OrtTensorRTProviderOptionsV2*)> trt(
      raw, [](auto* p) { Ort::GetApi().ReleaseTensorRTProviderOptions(p); });
  const auto [keys, values] = keys_and_values(options);
  Ort::ThrowOnError(
      Ort::GetApi().UpdateTensorRTProviderOptions(raw, keys.data(), values.data(), keys.size()));
  session.AppendExecutionProvider_TensorRT_V2(*trt);
}

Result<void> append_built_in(Ort::SessionOptions& session, const std::string& provider,
                             const std::vector<int>& device_ids, Options options) {
  static constexpr std::array<std::string_view, 5> kTakeDeviceId = {
      "CUDAExecutionProvider", "TensorrtExecutionProvider", "MIGraphXExecutionProvider",
      "ROCMExecutionProvider", "DmlExecutionProvider"};
  if (device_ids.size() > 1) {
    return fail(Code::kUnavailable, "device_ids has " + std::to_string(device_ids.size()) +
                                        " ids: a built-in provider runs a session on one device");
  }
  if (!device_ids.empty()) {
    if (std::ranges::find(kTakeDeviceId, provider) == kTakeDeviceId.end()) {
      return fail(Code::kUnavailable, "device_ids: this provider picks its device by its options");
    }
    options.insert_or_assign("device_id", std::to_string(device_ids.front()));
  }
  if (provider == "CUDAExecutionProvider") {
    append_cuda(session, options);
  } else if (provider == "TensorrtExecutionProvider") {
    append_tensorrt(session, options);
  } else {
    session.AppendExecutionProvider(short_name(provider), options);
  }
  return {};
}

// Lower is preferred. A CPU's own provider may offer GPUs too (OpenVINO); it was not asked for one.
int rank(const Ort::ConstEpDevice& device, bool gpu_wanted) {
  switch (device.Device().Type()) {
    case OrtHardwareDeviceType_GPU:
      return gpu_wanted ? 0 : 2;
    case OrtHardwareDeviceType_NPU:
      return 1;
    case OrtHardwareDeviceType_CPU:
      return gpu_wanted ? 2 : 0;
  }
  return 3;
}

Result<std::vector<Ort::ConstEpDevice>> chosen_devices(std::vector<Ort::ConstEpDevice> devices,
                                                       const LoadSpec& spec,
                                                       const std::string& provider) {
  const bool gpu_wanted = config::is_gpu_provider(provider);
  if (devices.empty()) return fail(Code::kUnavailable, "its library offers no device here");
  std::vector<Ort::ConstEpDevice> chosen;
  for (const int id : spec.device_ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= devices.size()) {
      return fail(Code::kUnavailable,
                  "no device " + std::to_string(id) + ": it has " + std::to_string(devices.size()));
    }
    chosen.push_back(devices[static_cast<std::size_t>(id)]);
  }
  if (chosen.empty()) {
    chosen.push_back(*std::ranges::min_element(
        devices, {}, [&](const auto& device) { return rank(device, gpu_wanted); }));
  }
  const auto is_cpu = [](const auto& device) {
    return device.Device().Type() == OrtHardwareDeviceType_CPU;
  };
  if (gpu_wanted && !spec.allow_software_gpu && std::ranges::any_of(chosen, is_cpu)) {
    return fail(Code::kUnavailable, "only a software device, and allow_software_gpu is off");
  }
  return chosen;
}

}  // namespace

Result<void> append_provider(Ort::SessionOptions& session, Environment& environment,
                             const LoadSpec& spec, const config::ProviderConfig& provider) {
  if (provider.name == kCpuProvider) {
    if (provider.options.empty()) return {};  // every session has it
    return fail(Code::kUnavailable,
                "unknown option '" + provider.options.begin()->first + "': it takes none");
  }
  const Options options(provider.options.begin(), provider.options.end());
  if (environment.is_plugin(provider.name)) {
    const std::string& failure = environment.plugin_failure(provider.name);
    if (!failure.empty()) return fail(Code::kUnavailable, failure);
    auto devices = chosen_devices(environment.devices(provider.name), spec, provider.name);
    if (!devices) return tl::unexpected(devices.error());
    session.AppendExecutionProvider_V2(environment.env(), *devices, options);
    return {};
  }
  if (environment.is_built_in(provider.name)) {
    return append_built_in(session, provider.name, spec.device_ids, options);
  }
  return fail(Code::kUnavailable, "not in this ONNX Runtime");
}

}  // namespace gradus::runtime
