// What one model's folder says of its ladder: `gradus.yaml`, or the defaults where it is silent.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/declared.h"
#include "config/policy_config.h"
#include "config/queue_policies.h"

namespace gradus::config {

enum class CheckOutputs { kNone, kFinite };
enum class Join { kIfQuicker, kAlways };
enum class Keep { kIfFaster, kAlways };
enum class Isolation { kAuto, kNone, kProcess };
enum class ExecutionMode { kSequential, kParallel };

struct ProviderConfig {
  std::string name;                            // ONNX Runtime's full name
  std::map<std::string, std::string> options;  // passed through as given
  bool operator==(const ProviderConfig&) const = default;
};

struct LevelConfig {
  int level = 0;                          // 0..7, 0 = best; numbers stay when a level is left out
  std::string name;                       // `gpu`, `cpu`, …
  std::string file;                       // plain name of a file in the version's folder
  std::vector<ProviderConfig> providers;  // tried in order; empty: all that it wants are excluded
  std::vector<ProviderConfig> excluded;   // wanted, but not in the process-wide provider list
  std::vector<int> device_ids;            // 0..255; empty: the provider's default device
  std::uint32_t max_batch_size = 1;       // 1..1024
  std::chrono::microseconds max_queue_delay{0};      // for a fuller batch, 0..10 s
  std::vector<std::uint32_t> preferred_batch_sizes;  // ascending, each in 1..max_batch_size
  double max_padding_waste = 0.25;                   // share of a batch that may be padding, 0..1
  Join join = Join::kIfQuicker;   // kAlways: requests are joined whether that saves time or not
  bool adaptive_batch = false;    // a run over the p99 target halves the size of batches
  double batch_tier_share = 0.5;  // of a GPU's time that tier `batch` may use, 0..1
  std::chrono::milliseconds target_p99{800};  // 1 ms..1 h
  int threads = 1;                            // intra-op threads of one run, 1..256
  ExecutionMode execution_mode = ExecutionMode::kSequential;
  int inter_op_threads = 0;  // that run nodes in kParallel, 0..256; 0: usable CPUs
  int instances = 0;         // concurrent runs, 0..256; 0: as many as CPUs allow (CPU), 1 (GPU)
  CheckOutputs check_outputs = CheckOutputs::kNone;
  bool allow_software_gpu = false;         // a Vulkan device of type CPU counts as a GPU
  Keep keep = Keep::kIfFaster;             // kAlways: never skipped for being slower
  Isolation isolation = Isolation::kAuto;  // kAuto: a process for GPU levels alone
  double quality = 1.0;                    // 0..1, of its answers, beside the other levels'
  bool operator==(const LevelConfig&) const = default;
};

/// Which of the versions that a model's folder holds are served.
struct VersionPolicy {
  std::uint32_t latest = 1;          // the so many highest; 0: all
  std::set<std::uint64_t> specific;  // not empty: these
  bool operator==(const VersionPolicy&) const = default;
};

struct ModelConfig {
  std::vector<LevelConfig> levels;  // 1..8, by `level`, ascending
  bool wants_gpu = true;  // some level is a GPU level; if not, lacking a GPU is no degradation
  PolicyConfig policy;
  std::chrono::milliseconds default_timeout{10'000};  // 1 ms..24 h
  bool admission = true;  // what would be too late by the estimates is refused at once
  std::uint32_t max_queue_size =
      0;  // requests waiting for one level, 0..1'000'000; 0: the server's
  std::uint32_t priority_levels = 0;   // values of the parameter `priority`; 0: three tiers
  std::map<std::string, double> pad;   // input -> value that makes unequal lengths equal
  std::uint32_t default_priority = 0;  // of requests that give none; 0: tier standard
  QueuePolicies queue_policies;
  VersionPolicy version_policy;
  Declared declared;
  std::vector<WarmupSample> warmup;  // run once more on each level that is loaded
  std::map<std::string, std::vector<std::string>> labels;  // output -> names of its indices
  std::string triton;              // config.pbtxt as it was read, serialised; "": there was none
  std::vector<std::string> notes;  // what was said and has no effect here; told when it is loaded
  bool operator==(const ModelConfig&) const = default;
};

/// What a model's version folder holds, as `default_levels` needs it.
struct VariantFiles {
  bool model = false;              // model.onnx
  bool fp16 = false;               // model.fp16.onnx
  bool int8 = false;               // model.int8.onnx
  bool small = false;              // model.small.onnx
  std::filesystem::path folder{};  // the version's; where none is known it is empty

  bool any() const { return model || fp16 || int8 || small; }
};

/// Looks for the four names in a version's folder; a folder that cannot be read holds none.
VariantFiles find_variants(const std::filesystem::path& version_folder);

/// The ladder of a folder without `levels:`: 0 gpu, 1 cpu, 2 cpu-int8, 3 cpu-small, those with a
/// file.
/// @param gpu_providers the GPU providers to try for level 0, full names, best first; empty (the
///   operator wants none) leaves level 0 out
/// @param cpu_providers the CPU providers for the other levels; empty leaves them out
std::vector<LevelConfig> default_levels(const VariantFiles& files,
                                        const std::vector<std::string>& gpu_providers,
                                        const std::vector<std::string>& cpu_providers);

/// Orders each level's providers as `list` does; those that are not in it move to `excluded`.
void limit_providers(std::vector<LevelConfig>& levels, const std::vector<std::string>& list);

/// Whether a GPU provider is among those the level tries (excluded ones do not count).
bool is_gpu_level(const LevelConfig& level);

/// Whether the level runs in a worker process, where a fault of its device cannot reach the server.
bool is_isolated(const LevelConfig& level);

/// Why nothing may run the level: `excluded by --providers: …`; empty if something may.
std::string exclusion_reason(const LevelConfig& level);

}  // namespace gradus::config
