#include "runtime/ort/environment.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "runtime/ort/error_text.h"
#include "runtime/ort/ort_log.h"

namespace gradus::runtime {
namespace {

// Where plugin providers lie beside the ONNX Runtime library.
constexpr std::array<std::pair<const char*, const char*>, 2> kBeside = {{
    {"WebGpuExecutionProvider", "libonnxruntime_providers_webgpu.so"},
    {"OpenVINOExecutionProvider", "openvino/libonnxruntime_providers_openvino_plugin.so"},
}};

// ONNX Runtime's environment is the process's, so this flag is too.
std::atomic<bool> g_alive{false};

std::filesystem::path folder_of_onnxruntime() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&OrtGetApiBase), &info) == 0) return {};
  std::error_code ignored;
  const auto path = std::filesystem::canonical(info.dli_fname, ignored);
  return path.parent_path();
}

// ONNX Runtime reports its use, models' names among it, to its vendor unless this is set before the
// environment exists. A server for other people's models must not.
Ort::Env quiet_env() {
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  return Ort::Env(ORT_LOGGING_LEVEL_WARNING, "gradus", write_ort_log, nullptr);
}

}  // namespace

std::shared_ptr<Environment> Environment::make(const OrtRuntime::Options& options) {
  if (g_alive.exchange(true)) return nullptr;
  try {
    return std::shared_ptr<Environment>(new Environment(options));
  } catch (...) {
    g_alive = false;
    throw;
  }
}

Environment::~Environment() {
  env_ = Ort::Env(nullptr);
  g_alive = false;
}

Environment::Environment(const OrtRuntime::Options& options)
    : verbose_(options.verbose), env_(quiet_env()), built_in_(Ort::GetAvailableProviders()) {
  // The WebGPU plugin reads it when it is registered; a variable is the only way to tell it.
  if (options.allow_software_gpu) setenv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1", 1);
  for (const auto& [provider, library] : options.provider_libraries) {
    register_plugin(provider, library);
  }
  const std::filesystem::path folder = folder_of_onnxruntime();
  for (const auto& [provider, library] : kBeside) {
    if (is_plugin(provider) || is_built_in(provider)) continue;
    std::error_code ignored;
    const auto path = folder / library;
    if (std::filesystem::exists(path, ignored)) register_plugin(provider, path.string());
  }
}

void Environment::register_plugin(const std::string& provider, const std::string& library) {
  std::string& failure = plugins_[provider];
  if (!std::filesystem::path(library).is_absolute()) {
    failure = "library " + library + ": the path must be absolute";
    return;
  }
  const LogCapture log;
  try {
    env_.RegisterExecutionProviderLibrary(provider.c_str(), library);
    log::debug("provider library registered", {{"provider", provider}, {"library", library}});
  } catch (const Ort::Exception& e) {
    failure = error_text(e.what(), log);
    if (failure.find(library) == std::string::npos) failure = "library " + library + ": " + failure;
  }
}

bool Environment::is_built_in(const std::string& provider) const {
  return std::ranges::find(built_in_, provider) != built_in_.end();
}

std::vector<Ort::ConstEpDevice> Environment::devices(const std::string& provider) const {
  std::vector<Ort::ConstEpDevice> devices = env_.GetEpDevices();
  std::erase_if(devices, [&](const auto& device) { return device.EpName() != provider; });
  return devices;
}

std::vector<std::string> Environment::providers() const {
  std::vector<std::string> names;
  for (const auto& [provider, failure] : plugins_) {
    if (failure.empty()) names.push_back(provider);
  }
  for (const std::string& provider : built_in_) {
    if (!is_plugin(provider)) names.push_back(provider);
  }
  return names;
}

}  // namespace gradus::runtime
