#include "serving/model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace gradus::serving {
namespace {

std::string difference(const std::vector<runtime::TensorSpec>& better,
                       const std::vector<runtime::TensorSpec>& worse, const std::string& kind) {
  if (better.size() != worse.size()) {
    return "has " + std::to_string(worse.size()) + " " + kind + "s, a better level has " +
           std::to_string(better.size());
  }
  for (const runtime::TensorSpec& spec : better) {
    const auto found = std::ranges::find(worse, spec.name, &runtime::TensorSpec::name);
    if (found == worse.end())
      return "has no " + kind + " '" + spec.name + "' as a better level has";
    if (found->dtype != spec.dtype || found->shape.size() != spec.shape.size()) {
      return kind + " '" + spec.name + "' is " + std::string(dtype_name(found->dtype)) + " " +
             shape_text(found->shape) + ", in a better level " +
             std::string(dtype_name(spec.dtype)) + " " + shape_text(spec.shape);
    }
  }
  return "";
}

}  // namespace

Model::Model(std::string model, std::string number, std::filesystem::path folder,
             config::ModelConfig settings, const Clock& clock, Observer observer)
    : name(std::move(model)),
      version(std::move(number)),
      files(std::move(folder)),
      config(std::move(settings)),
      ladder(name, version, config, clock, std::move(observer)),
      loading(static_cast<int>(config.levels.size())),
      cpu_loading(static_cast<int>(
          std::ranges::count_if(config.levels, std::not_fn(config::is_gpu_level)))) {
  for (const config::LevelConfig& level : config.levels) {
    levels.push_back(std::make_unique<LevelSlot>(level));
  }
}

const runtime::Signature* Model::signature() const {
  for (const auto& level : levels) {
    if (const LevelRuntime* const runtime = level->runtime()) return &runtime->signature();
  }
  return nullptr;
}

LevelSlot* Model::slot(int level) const {
  const auto found = std::ranges::find_if(
      levels, [&](const auto& candidate) { return candidate->config.level == level; });
  return found == levels.end() ? nullptr : found->get();
}

Result<std::vector<Tensor>> LevelRuntime::run(const runtime::RunInputs& inputs,
                                              std::span<const std::size_t> outputs,
                                              runtime::Stop* stop) const {
  auto tensors = backend->run(inputs, outputs, stop);
  if (!tensors) return tensors;
  if (const auto kept = contract.check(outputs, *tensors); !kept) {
    return tl::unexpected(kept.error());
  }
  return tensors;
}

std::vector<std::size_t> LevelRuntime::all_outputs() const {
  std::vector<std::size_t> all(signature().outputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Result<std::vector<Tensor>> LevelRuntime::run_sample() const {
  return run(sample_views, all_outputs());
}

bool share_device(const config::LevelConfig& a, const config::LevelConfig& b) {
  if (config::is_gpu_level(a) != config::is_gpu_level(b)) return false;
  if (!config::is_gpu_level(a)) return true;
  static const std::vector<int> first_device{0};  // what no device means
  const auto& of_a = a.device_ids.empty() ? first_device : a.device_ids;
  const auto& of_b = b.device_ids.empty() ? first_device : b.device_ids;
  return std::ranges::find_first_of(of_a, of_b) != of_a.end();
}

std::string difference(const runtime::Signature& better, const runtime::Signature& worse) {
  std::string what = difference(better.inputs, worse.inputs, "input");
  if (what.empty()) {
    what = difference(better.optional_inputs, worse.optional_inputs, "optional input");
  }
  return what.empty() ? difference(better.outputs, worse.outputs, "output") : what;
}

}  // namespace gradus::serving
