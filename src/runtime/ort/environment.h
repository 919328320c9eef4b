// ONNX Runtime's environment and the providers it has: built in, or registered as plugin libraries.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/ort/ort_runtime.h"

namespace gradus::runtime {

/// WebGPU may do one thing at a time in a process: two sessions run at once crash it.
struct WebGpuState {
  Mutex mutex;                         // held around every run, creation and end of a session
  std::string lost GUARDED_BY(mutex);  // why no adapter can be had any more in this process
};

class Environment {
 public:
  /// Null while another one lives: ONNX Runtime has one environment a process behind all its
  /// handles, and a library registered twice there takes its first registration down with it.
  /// Throws Ort::Exception.
  static std::shared_ptr<Environment> make(const OrtRuntime::Options& options);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  Ort::Env& env() { return env_; }
  bool verbose() const { return verbose_; }
  WebGpuState& webgpu() { return webgpu_; }

  bool is_built_in(const std::string& provider) const;
  /// Given or found as a plugin library, usable or not.
  bool is_plugin(const std::string& provider) const { return plugins_.contains(provider); }
  /// Why the plugin library cannot be used; empty when it is registered.
  const std::string& plugin_failure(const std::string& provider) const {
    return plugins_.at(provider);
  }
  /// The devices that a provider's plugin offers, in ONNX Runtime's order.
  std::vector<Ort::ConstEpDevice> devices(const std::string& provider) const;
  std::vector<std::string> providers() const;

 private:
  explicit Environment(const OrtRuntime::Options& options);
  void register_plugin(const std::string& provider, const std::string& library);

  const bool verbose_;
  Ort::Env env_;
  std::vector<std::string> built_in_;
  std::map<std::string, std::string> plugins_;  // provider -> why it cannot be used, or empty
  WebGpuState webgpu_;
};

}  // namespace gradus::runtime
