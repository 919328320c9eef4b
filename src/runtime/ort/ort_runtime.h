// ONNX Runtime as this program uses it: one environment a process, provider libraries registered at
// the start, models loaded on the first provider that really carries them. No ONNX Runtime type
// leaves this folder.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/load.h"

namespace gradus::runtime {

class Environment;  // ONNX Runtime's, private to this folder

class OrtRuntime {
 public:
  struct Options {
    std::map<std::string, std::string> provider_libraries;  // provider's full name -> absolute path
    bool verbose = false;             // ONNX Runtime's log of session creation, at debug
    bool allow_software_gpu = false;  // some level may run on a Vulkan device of type CPU
  };

  /// One a process. Call it before other threads start: it may set an environment variable.
  /// Registers the plugin libraries given, and those of WebGPU and OpenVINO that lie beside the
  /// ONNX Runtime library; one that cannot be used is a reason kept for its provider.
  /// kUnavailable: the ONNX Runtime library is older than the headers this was built with;
  /// kInternal: there is one already, or a backend of an earlier one still lives.
  static Result<std::unique_ptr<OrtRuntime>> create(const Options& options);
  ~OrtRuntime();

  /// ONNX Runtime's own, such as `1.31.1`.
  std::string version() const;

  /// Full names of the providers this ONNX Runtime has, built in or by a usable plugin. That a
  /// provider is here does not say that it works: only load() tells.
  std::vector<std::string> providers() const;

  /// Loads on the first provider on which a session could be made, to which most of the graph's
  /// nodes were assigned, and on which a run with made-up inputs succeeded (docs/adr/0002). Takes
  /// from milliseconds to minutes. Any thread; loads of different models run side by side. Backends
  /// may outlive the runtime.
  /// kNotFound: no such file; kUnavailable: failures_text() of every provider tried.
  Result<Loaded> load(const LoadSpec& spec) const;

 private:
  explicit OrtRuntime(std::shared_ptr<Environment> environment);

  std::shared_ptr<Environment> environment_;
};

}  // namespace gradus::runtime
