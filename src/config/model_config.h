// What one model's folder says of its ladder: `gradus.yaml`, or the defaults where it is silent.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/policy_config.h"

namespace gradus::config {

enum class CheckOutputs { kNone, kFinite };
enum class Keep { kIfFaster, kAlways };

struct ProviderConfig {
  std::string name;                            // ONNX Runtime's full name
  std::map<std::string, std::string> options;  // passed through as given
};

struct LevelConfig {
  int level = 0;                          // 0 = best; numbers stay when a level is left out
  std::string name;                       // `gpu`, `cpu`, …
  std::string file;                       // in the version's folder
  std::vector<ProviderConfig> providers;  // tried in order; empty: nothing here can run it
  std::vector<int> device_ids;            // empty: the provider's default device
  std::uint32_t max_batch_size = 1;       // 1..1024
  std::chrono::milliseconds target_p99{800};
  int threads = 1;    // intra-op threads of one run, 1..256
  int instances = 0;  // concurrent runs; 0: as many as CPUs allow (CPU), 1 (GPU)
  CheckOutputs check_outputs = CheckOutputs::kNone;
  bool allow_software_gpu = false;  // a Vulkan device of type CPU counts as a GPU
  Keep keep = Keep::kIfFaster;      // kAlways: never skipped for being slower
  double quality = 1.0;             // 0..1, for reports
};

struct ModelConfig {
  std::vector<LevelConfig> levels;  // by `level`, ascending
  bool wants_gpu = true;  // false: no GPU level is wanted, so lacking one is no degradation
  PolicyConfig policy;
  std::chrono::milliseconds default_timeout{10'000};
};

/// What a model's version folder holds, as `default_levels` needs it.
struct VariantFiles {
  bool model = false;  // model.onnx
  bool fp16 = false;   // model.fp16.onnx
  bool int8 = false;   // model.int8.onnx
  bool small = false;  // model.small.onnx
};

/// The ladder of a folder without `levels:`: 0 gpu, 1 cpu, 2 cpu-int8, 3 cpu-small, those with a
/// file.
/// @param gpu_providers the GPU providers to try for level 0, full names, best first; empty (the
///   operator wants none) leaves level 0 out
/// @param cpu_providers the CPU providers for the other levels; empty leaves them out
std::vector<LevelConfig> default_levels(const VariantFiles& files,
                                        const std::vector<std::string>& gpu_providers,
                                        const std::vector<std::string>& cpu_providers);

}  // namespace gradus::config
