#include "serving/model.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/sample_inputs.h"

namespace gradus::serving {
namespace {

// Index in `level` of each tensor of `model`, by name.
Result<std::vector<std::size_t>> indices(const std::vector<runtime::TensorSpec>& model,
                                         const std::vector<runtime::TensorSpec>& level,
                                         const char* kind) {
  if (model.size() != level.size()) {
    return fail(Code::kInvalid, "has " + std::to_string(level.size()) + " " + kind +
                                    "s, the model's other levels " + std::to_string(model.size()));
  }
  std::vector<std::size_t> order;
  for (const runtime::TensorSpec& spec : model) {
    const auto found = std::ranges::find(level, spec.name, &runtime::TensorSpec::name);
    if (found == level.end()) {
      return fail(Code::kInvalid, std::string("has no ") + kind + " '" + spec.name +
                                      "' as the model's other levels have");
    }
    if (found->dtype != spec.dtype || found->shape.size() != spec.shape.size()) {
      return fail(Code::kInvalid, std::string(kind) + " '" + spec.name + "' is " +
                                      std::string(dtype_name(found->dtype)) + " " +
                                      shape_text(found->shape) + ", in the model's other levels " +
                                      std::string(dtype_name(spec.dtype)) + " " +
                                      shape_text(spec.shape));
    }
    order.push_back(static_cast<std::size_t>(found - level.begin()));
  }
  return order;
}

std::vector<std::size_t> inverse(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  return back;
}

}  // namespace

Model::Model(std::string name_, std::string version_, std::filesystem::path files_,
             config::ModelConfig config_, const Clock& clock)
    : name(std::move(name_)),
      version(std::move(version_)),
      files(std::move(files_)),
      config(std::move(config_)),
      ladder(name, config, clock),
      loading(static_cast<int>(config.levels.size())),
      cpu_loading(static_cast<int>(
          std::ranges::count_if(config.levels, std::not_fn(config::is_gpu_level)))) {
  for (const config::LevelConfig& level : config.levels) {
    levels.push_back(std::make_unique<LevelSlot>(level));
  }
}

Result<Model::TensorOrder> Model::adopt(const runtime::Signature& of_level) {
  const MutexLock lock(mutex_);
  if (signature_ == nullptr) {
    signature_ = std::make_unique<const runtime::Signature>(of_level);
    published_.store(signature_.get(), std::memory_order_release);
  }
  const auto inputs = indices(signature_->inputs, of_level.inputs, "input");
  if (!inputs) return tl::unexpected(inputs.error());
  const auto outputs = indices(signature_->outputs, of_level.outputs, "output");
  if (!outputs) return tl::unexpected(outputs.error());
  return TensorOrder{inverse(*inputs), *outputs};
}

void Model::set_sample(std::int64_t size) {
  sample_ = runtime::sample_inputs(*signature(), size);
  sample_views_ = runtime::views_of(sample_);
}

LevelSlot* Model::slot(int level) const {
  const auto found = std::ranges::find_if(
      levels, [&](const auto& candidate) { return candidate->config.level == level; });
  return found == levels.end() ? nullptr : found->get();
}

Result<std::vector<Tensor>> run_level(const LevelRuntime& level, std::span<const TensorView> inputs,
                                      std::span<const std::size_t> outputs) {
  std::vector<TensorView> level_inputs;
  level_inputs.reserve(level.input_order.size());
  for (const std::size_t i : level.input_order) level_inputs.push_back(inputs[i]);
  std::vector<std::size_t> level_outputs;
  level_outputs.reserve(outputs.size());
  for (const std::size_t i : outputs) level_outputs.push_back(level.output_order[i]);
  return level.backend->run(level_inputs, level_outputs);
}

}  // namespace gradus::serving
