#include "tools/drill_scratch.h"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/cpu_count.h"
#include "config/load.h"
#include "config/provider_names.h"
#include "serving/repository.h"
#include "triton/read.h"

namespace gradus::tools {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kLibrary = "libgradus_fault_ep.so";
constexpr const char* kWebGpu = "WebGpuExecutionProvider";
constexpr const char* kWebGpuLibrary = "libonnxruntime_providers_webgpu.so";
constexpr std::uint32_t kNoCrashLoop = 1'000'000;  // trials are no crash loop
// A server probes no oftener than every 200 ms, and five of these without one break a hold.
constexpr milliseconds kLeastProbeEvery{100};
// A hung run is given ten targets, and whoever waits for it is answered after that.
constexpr int kTargetsForAnAnswer = 20;
constexpr milliseconds kCrashLoopPause{2000};  // a drill does not wait a minute

Result<fs::path> find_fault_library() {
  const fs::path beside = own_binary().parent_path();
  for (const fs::path& folder : {beside, beside.parent_path() / "lib" / "gradus"}) {
    std::error_code error;
    if (fs::exists(folder / kLibrary, error)) return folder / kLibrary;
  }
  return fail(Code::kNotFound, std::string(kLibrary) + " is neither in " + beside.string() +
                                   " nor in " + (beside.parent_path() / "lib" / "gradus").string());
}

// Where the server finds it: beside the ONNX Runtime that this process has too. "": nowhere.
fs::path find_webgpu_library() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || line.find("/libonnxruntime.so") == std::string::npos) continue;
    const fs::path library = fs::path(line.substr(path)).parent_path() / kWebGpuLibrary;
    std::error_code error;
    return fs::exists(library, error) ? library : fs::path();
  }
  return {};
}

// The library of level 0's provider, if it is one that can be taken away.
Result<fs::path> find_library(const std::string& provider) {
  if (provider == kFaultProvider) return find_fault_library();
  return provider == kWebGpu ? find_webgpu_library() : fs::path();
}

// The newest of its versions.
Result<serving::ModelVersion> find_model(const DrillOptions& options,
                                         const config::ServerConfig& server) {
  const serving::Repository repository(server, triton::read_config);
  auto model = repository.read(serving::LoadModel{options.model, {}, {}});
  if (!model) return fail(Code::kInvalid, "--model: " + model.error().message);
  if (!model->all_faults().empty()) return fail(Code::kInvalid, model->all_faults().front());
  return std::move(model->versions.back());
}

Result<void> prepare_levels(std::vector<config::LevelConfig>& levels, const std::string& provider) {
  std::erase_if(levels, [](const config::LevelConfig& level) {
    return level.level > 0 && (config::is_gpu_level(level) || level.providers.empty());
  });
  if (levels.size() < 2 || levels.front().level != 0) {
    return fail(Code::kInvalid,
                "the model needs a level 0 and a CPU level below it: a drill breaks the first and "
                "watches the second");
  }
  for (config::LevelConfig& level : levels) level.keep = config::Keep::kAlways;
  config::LevelConfig& broken = levels.front();
  config::ProviderConfig only{provider, {}};
  for (const auto* listed : {&broken.providers, &broken.excluded}) {
    const auto found = std::ranges::find(*listed, provider, &config::ProviderConfig::name);
    if (found != listed->end()) only = *found;
  }
  broken.providers = {std::move(only)};
  broken.excluded.clear();
  broken.isolation = config::Isolation::kProcess;
  if (provider != kFaultProvider) return {};
  broken.file = levels[1].file;
  broken.instances = usable_cpus();  // as the CPU levels; with one it would carry no CPU's load
  broken.providers.front().options.clear();
  broken.device_ids.clear();
  broken.check_outputs = config::CheckOutputs::kFinite;
  return {};
}

milliseconds in_ms(DrillOptions::Seconds time) {
  return std::chrono::duration_cast<milliseconds>(time);
}

Result<void> prepare_policy(config::PolicyConfig& policy, const DrillOptions& options) {
  if (options.hold) {
    policy.hold = in_ms(*options.hold);
    const milliseconds often = std::max(policy.hold / 10, kLeastProbeEvery);
    policy.probe_every = std::min({policy.probe_every, often, policy.hold});
    policy.hold_cap = std::max(policy.hold_cap, policy.hold);
    policy.canary_stage_min = std::min(policy.canary_stage_min, policy.hold);
    policy.canary_stage_max = std::min(policy.canary_stage_max, 2 * policy.hold);
  }
  if (options.max_hold) policy.hold_cap = in_ms(*options.max_hold);
  if (options.cooldown) policy.cooldown = in_ms(*options.cooldown);
  if (options.breaker) policy.breaker_open = in_ms(*options.breaker);
  if (policy.hold_cap < policy.hold) {
    return fail(Code::kInvalid,
                "--max-hold: under the hold of " + std::to_string(policy.hold.count()) + " ms");
  }
  return {};
}

template <class Config>
Result<void> write_config(const fs::path& path, const Config& config) {
  std::ofstream file(path);
  config::print_effective(file, config);
  file.close();
  return file ? Result<void>{} : fail(Code::kInternal, path.string() + ": cannot be written");
}

}  // namespace

fs::path own_binary() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

Result<Scratch> Scratch::make(const DrillOptions& options) {
  const auto provider =
      config::full_provider_name(options.provider, std::vector{std::string(kFaultProvider)});
  if (!provider) {
    return fail(Code::kInvalid, "--provider: unknown provider '" + options.provider + "'");
  }
  const auto library = find_library(*provider);
  if (!library) return tl::unexpected(library.error());
  config::ServerConfig server;
  server.model_repositories = {options.model_repository.string()};
  auto model = find_model(options, server);
  if (!model) return tl::unexpected(model.error());
  const auto levels = prepare_levels(model->config.levels, *provider);
  if (!levels) return tl::unexpected(levels.error());
  const auto policy = prepare_policy(model->config.policy, options);
  if (!policy) return tl::unexpected(policy.error());

  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "gradus-drill-XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    return fail(Code::kInternal, folder + ": cannot be made");
  }
  Scratch scratch(folder);
  scratch.name_ = options.model;
  scratch.version_ = model->text();
  scratch.model_ = std::move(model->config);
  scratch.provider_file_ = *library;
  scratch.files_ = fs::canonical(model->files, error);
  const fs::path models = scratch.folder_ / "models";
  if (!error) fs::create_directories(models / options.model, error);
  if (error) return fail(Code::kInternal, models.string() + ": " + error.message());
  scratch.show_all();
  server.model_repositories = {models.string()};
  server.http.port = 0;
  server.grpc.port = 0;
  server.metrics.port = 0;
  server.worker_crash_loop_pause = kCrashLoopPause;
  if (options.restart_backoff) server.worker_restart_backoff = in_ms(*options.restart_backoff);
  if (scratch.has_library()) {
    server.provider_libraries = {{*provider, scratch.link_to_library().string()}};
  }
  scratch.server_ = std::move(server);
  return scratch;
}

Scratch::Scratch(Scratch&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      provider_file_(std::move(other.provider_file_)),
      files_(std::move(other.files_)),
      name_(std::move(other.name_)),
      version_(std::move(other.version_)),
      server_(std::move(other.server_)),
      model_(std::move(other.model_)) {}

Scratch::~Scratch() {
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
}

Result<void> Scratch::write(std::optional<milliseconds> target, bool crash_loop) {
  config::ServerConfig server = server_;
  if (!crash_loop) server.worker_crash_loop_deaths = kNoCrashLoop;
  if (const auto written = write_config(server_config(), server); !written) return written;
  config::ModelConfig model = model_;
  if (target) {
    model.levels.front().target_p99 = *target;
    model.default_timeout = std::max(model.default_timeout, kTargetsForAnAnswer * *target);
  }
  return write_config(folder_ / "models" / name_ / "gradus.yaml", model);
}

Result<void> Scratch::hide(const fs::path& link) {
  std::error_code error;
  if (fs::remove(link, error)) return {};
  return fail(Code::kInternal, link.string() + ": cannot be taken away");
}

void Scratch::show_all() {
  std::error_code there;
  fs::create_directory_symlink(files_, version_link(), there);
  if (has_library()) fs::create_symlink(provider_file_, link_to_library(), there);
}

}  // namespace gradus::tools
