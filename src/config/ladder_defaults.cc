// The ladder that a folder's files give by themselves, and what the provider list does to a ladder.
#include <algorithm>

#include "config/model_config.h"
#include "config/provider_names.h"

namespace gradus::config {
namespace {

constexpr const char* kModel = "model.onnx";
constexpr const char* kFp16 = "model.fp16.onnx";
constexpr const char* kInt8 = "model.int8.onnx";
constexpr const char* kSmall = "model.small.onnx";

std::vector<ProviderConfig> without_options(const std::vector<std::string>& names) {
  std::vector<ProviderConfig> providers;
  providers.reserve(names.size());
  for (const std::string& name : names) providers.push_back({name, {}});
  return providers;
}

}  // namespace

VariantFiles find_variants(const std::filesystem::path& version_folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::is_regular_file(version_folder / name, error);
  };
  return {has(kModel), has(kFp16), has(kInt8), has(kSmall), version_folder};
}

std::vector<LevelConfig> default_levels(const VariantFiles& files,
                                        const std::vector<std::string>& gpu_providers,
                                        const std::vector<std::string>& cpu_providers) {
  struct Row {
    int level;
    const char* name;
    const char* file;
    bool present;
    const std::vector<std::string>& providers;
    std::uint32_t max_batch_size;
    int target_ms;
    double quality;
  };
  const Row rows[] = {
      {0, "gpu", files.fp16 ? kFp16 : kModel, files.fp16 || files.model, gpu_providers, 32, 50,
       1.0},
      {1, "cpu", kModel, files.model, cpu_providers, 8, 800, 1.0},
      {2, "cpu-int8", kInt8, files.int8, cpu_providers, 1, 500, 0.99},
      {3, "cpu-small", kSmall, files.small, cpu_providers, 1, 200, 0.9},
  };
  std::vector<LevelConfig> levels;
  for (const Row& row : rows) {
    if (!row.present || row.providers.empty()) continue;
    LevelConfig& level = levels.emplace_back();
    level.level = row.level;
    level.name = row.name;
    level.file = row.file;
    level.providers = without_options(row.providers);
    level.max_batch_size = row.max_batch_size;
    level.target_p99 = std::chrono::milliseconds(row.target_ms);
    level.quality = row.quality;
  }
  return levels;
}

void limit_providers(std::vector<LevelConfig>& levels, const std::vector<std::string>& list) {
  for (LevelConfig& level : levels) {
    std::vector<ProviderConfig> kept;
    for (const std::string& name : list) {
      for (const ProviderConfig& provider : level.providers) {
        if (provider.name == name) kept.push_back(provider);
      }
    }
    for (ProviderConfig& provider : level.providers) {
      if (std::find(list.begin(), list.end(), provider.name) == list.end()) {
        level.excluded.push_back(std::move(provider));
      }
    }
    level.providers = std::move(kept);
  }
}

bool is_gpu_level(const LevelConfig& level) {
  return std::any_of(level.providers.begin(), level.providers.end(),
                     [](const ProviderConfig& p) { return is_gpu_provider(p.name); });
}

bool is_isolated(const LevelConfig& level) {
  return level.isolation == Isolation::kProcess ||
         (level.isolation == Isolation::kAuto && is_gpu_level(level));
}

std::string exclusion_reason(const LevelConfig& level) {
  if (!level.providers.empty()) return {};
  std::string text = "excluded by --providers: ";
  for (std::size_t i = 0; i < level.excluded.size(); ++i) {
    text += (i == 0 ? "" : ", ") + level.excluded[i].name;
  }
  return text;
}

}  // namespace gradus::config
