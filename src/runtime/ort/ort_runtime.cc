#include "runtime/ort/ort_runtime.h"

#include <onnxruntime_cxx_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <cstdio>
#include <utility>

#include "base/cpu_count.h"
#include "runtime/ort/environment.h"
#include "runtime/ort/error_text.h"
#include "runtime/ort/ort_log.h"
#include "runtime/ort/placement.h"
#include "runtime/ort/provider_append.h"
#include "runtime/ort/session.h"
#include "runtime/ort/vulkan_devices.h"
#include "runtime/sample_inputs.h"

namespace gradus::runtime {
namespace {

Ort::SessionOptions session_options(const LoadSpec& spec, const Environment& environment) {
  Ort::SessionOptions options;
  options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  const bool parallel = spec.execution_mode == config::ExecutionMode::kParallel;
  options.SetExecutionMode(parallel ? ORT_PARALLEL : ORT_SEQUENTIAL);
  options.SetIntraOpNumThreads(spec.threads);
  if (parallel) {
    // Its own default would be the machine's cores, whatever the control group allows.
    options.SetInterOpNumThreads(spec.inter_op_threads > 0 ? spec.inter_op_threads : usable_cpus());
  }
  options.AddConfigEntry(kOrtSessionOptionsConfigAllowIntraOpSpinning, "0");
  options.AddConfigEntry(kOrtSessionOptionsConfigAllowInterOpSpinning, "0");
  if (environment.verbose()) options.SetLogSeverityLevel(ORT_LOGGING_LEVEL_VERBOSE);
  record_placement(options);
  return options;
}

// Dawn, below the WebGPU provider, takes whatever adapter it finds: look at them first.
Result<void> check_vulkan(bool allow_software_gpu) {
  const auto devices = vulkan_devices();
  if (!devices) return tl::unexpected(devices.error());
  std::string software;
  for (const VulkanDevice& device : *devices) {
    if (!device.software || allow_software_gpu) return {};
    software += (software.empty() ? "" : ", ") + device.name;
  }
  return fail(Code::kUnavailable,
              "only software Vulkan devices (" + software + "), and allow_software_gpu is off");
}

Result<Ort::Session> make_session(Environment& environment, const LoadSpec& spec,
                                  const config::ProviderConfig& provider) {
  const LogCapture log;
  try {
    Ort::SessionOptions options = session_options(spec, environment);
    if (const auto ok = append_provider(options, environment, spec, provider); !ok) {
      return tl::unexpected(ok.error());
    }
    return Ort::Session(environment.env(), spec.file.c_str(), options);
  } catch (const Ort::Exception& e) {
    return fail(Code::kUnavailable, error_text(e.what(), log));
  }
}

Result<Ort::Session> make_webgpu_session(Environment& environment, const LoadSpec& spec,
                                         const config::ProviderConfig& provider) {
  WebGpuState& webgpu = environment.webgpu();
  const MutexLock lock(webgpu.mutex);
  if (!webgpu.lost.empty()) return fail(Code::kUnavailable, webgpu.lost);
  if (environment.is_built_in(provider.name) ||
      (environment.is_plugin(provider.name) && environment.plugin_failure(provider.name).empty())) {
    if (auto ok = check_vulkan(spec.allow_software_gpu); !ok) return tl::unexpected(ok.error());
  }
  auto session = make_session(environment, spec, provider);
  if (!session && session.error().message.find("WebGPU adapter") != std::string::npos) {
    session.error().message += "; stays lost until restart";
    webgpu.lost = session.error().message;
  }
  return session;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

Result<void> check_placement(const std::vector<Placement>& placement, double share) {
  if (share > 0.5) return {};
  std::uint64_t nodes = 0;
  for (const Placement& part : placement) nodes += part.nodes;
  if (share == 0) {
    return fail(Code::kUnavailable,
                "none of the graph's " + std::to_string(nodes) + " nodes could be placed on it");
  }
  return fail(Code::kUnavailable, "only " + percent(share) + " of the graph's " +
                                      std::to_string(nodes) + " nodes could be placed on it; " +
                                      placement.front().provider + " has " +
                                      std::to_string(placement.front().nodes));
}

// Everything that makes a provider count as used; the error is the whole reason why it does not.
Result<Loaded> try_provider(const std::shared_ptr<Environment>& environment, const LoadSpec& spec,
                            const config::ProviderConfig& provider) {
  auto session = provider.name == kWebGpuProvider
                     ? make_webgpu_session(*environment, spec, provider)
                     : make_session(*environment, spec, provider);
  if (!session) return tl::unexpected(session.error());
  std::unique_ptr<OrtSession> backend;
  try {
    auto made = OrtSession::make(environment, std::move(*session), provider.name, spec.overridable);
    if (!made) return tl::unexpected(made.error());
    backend = std::move(*made);
  } catch (const Ort::Exception& e) {
    return fail(Code::kUnavailable, error_text(e.what()));
  }
  // Where only the CPU was asked for, nothing else can have got a node.
  const bool on_cpu = provider.name == kCpuProvider;
  const double share = on_cpu ? 1 : share_of(backend->placement(), provider.name);
  if (auto ok = check_placement(backend->placement(), share); !ok) {
    return tl::unexpected(ok.error());
  }
  if (const auto probe = find_sample(*backend); !probe) {
    return fail(Code::kUnavailable, "the probe run failed: " + probe.error().message);
  }
  // Only now: made-up inputs may well have no finite answer.
  backend->set_check_outputs(spec.check_outputs);
  return Loaded{std::move(backend), provider.name, share, {}};
}

}  // namespace

OrtRuntime::OrtRuntime(std::shared_ptr<Environment> environment)
    : environment_(std::move(environment)) {}

OrtRuntime::~OrtRuntime() = default;

Result<std::unique_ptr<OrtRuntime>> OrtRuntime::create(const Options& options) {
  if (OrtGetApiBase()->GetApi(ORT_API_VERSION) == nullptr) {
    return fail(Code::kUnavailable,
                std::string("ONNX Runtime ") + OrtGetApiBase()->GetVersionString() +
                    " is too old: this was built for 1." + std::to_string(ORT_API_VERSION));
  }
  try {
    auto environment = Environment::make(options);
    if (environment == nullptr) {
      return fail(Code::kInternal, "ONNX Runtime is in use already; one environment a process");
    }
    return std::unique_ptr<OrtRuntime>(new OrtRuntime(std::move(environment)));
  } catch (const Ort::Exception& e) {
    return fail(Code::kUnavailable, error_text(e.what()));
  }
}

std::string OrtRuntime::version() const { return Ort::GetVersionString(); }

std::vector<std::string> OrtRuntime::providers() const { return environment_->providers(); }

Result<Loaded> OrtRuntime::load(const LoadSpec& spec) const {
  std::error_code error;
  if (!std::filesystem::is_regular_file(spec.file, error)) {
    return fail(Code::kNotFound, spec.file.string() + ": no such file");
  }
  if (spec.providers.empty()) return fail(Code::kUnavailable, "no provider is wanted");
  std::vector<ProviderFailure> failures;
  for (const config::ProviderConfig& provider : spec.providers) {
    auto loaded = try_provider(environment_, spec, provider);
    if (loaded) {
      loaded->failures = std::move(failures);
      return loaded;
    }
    failures.push_back({provider.name, loaded.error().message});
  }
  return fail(Code::kUnavailable, failures_text(failures));
}

}  // namespace gradus::runtime
