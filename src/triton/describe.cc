#include "triton/describe.h"

#include <model_config.pb.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "serving/declared.h"
#include "triton/message_json.h"

namespace gradus::triton {
namespace {

inference::DataType data_type(DType dtype) {
  if (dtype == DType::kBytes) return inference::TYPE_STRING;
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + std::string(dtype_name(dtype)), &type);
  return type;
}

/// The largest batch that some level joins.
std::uint32_t most_joined(const config::ModelConfig& config) {
  std::uint32_t most = 1;
  for (const config::LevelConfig& level : config.levels) {
    most = std::max(most, level.max_batch_size);
  }
  return most;
}

/// 0: the shapes have no batch dimension.
std::uint32_t max_batch_size(const config::ModelConfig& config, const runtime::Signature& shown) {
  if (config.declared.max_batch_size) return *config.declared.max_batch_size;
  return serving::is_batched(config.declared, shown) ? most_joined(config) : 0;
}

/// In the signature's order, what was said of each kept.
template <class Tensors>
void complete(Tensors& tensors, const std::vector<runtime::TensorSpec>& specs, bool has_batch) {
  Tensors said;
  said.Swap(&tensors);
  for (const runtime::TensorSpec& spec : specs) {
    auto& tensor = *tensors.Add();
    const auto same_name = [&](const auto& other) { return other.name() == spec.name; };
    if (const auto found = std::ranges::find_if(said, same_name); found != said.end()) {
      tensor = *found;
    }
    tensor.set_name(spec.name);
    tensor.set_data_type(data_type(spec.dtype));
    const auto dims = spec.shape.begin() + (has_batch ? 1 : 0);
    tensor.mutable_dims()->Assign(dims, spec.shape.end());
  }
}

void show_versions(const config::VersionPolicy& policy, inference::ModelVersionPolicy& out) {
  if (!policy.specific.empty()) {
    auto& versions = *out.mutable_specific()->mutable_versions();
    versions.Clear();
    for (const std::uint64_t version : policy.specific) {
      versions.Add(static_cast<std::int64_t>(version));
    }
  } else if (policy.latest == 0) {
    out.mutable_all();
  } else {
    out.mutable_latest()->set_num_versions(policy.latest);
  }
}

void show_policy(const config::QueuePolicy& policy, inference::ModelQueuePolicy& out) {
  out.set_timeout_action(policy.timeout_action == config::TimeoutAction::kDelay
                             ? inference::ModelQueuePolicy::DELAY
                             : inference::ModelQueuePolicy::REJECT);
  out.set_default_timeout_microseconds(static_cast<std::uint64_t>(policy.timeout.count()));
  out.set_allow_timeout_override(policy.allow_timeout_override);
  out.set_max_queue_size(policy.max_queue_size);
}

bool queues_say_anything(const config::ModelConfig& config) {
  return config.priority_levels > 0 || config.max_queue_size > 0 ||
         config.queue_policies != config::QueuePolicies{};
}

void show_queues(const config::ModelConfig& config, inference::ModelDynamicBatching& out) {
  out.set_priority_levels(config.priority_levels);
  out.set_default_priority_level(config.default_priority);
  const config::QueuePolicies& policies = config.queue_policies;
  show_policy(policies.usual, *out.mutable_default_queue_policy());
  if (config.priority_levels == 0 && config.max_queue_size > 0) {
    out.mutable_default_queue_policy()->set_max_queue_size(config.max_queue_size);
  }
  out.clear_priority_queue_policy();
  for (const auto& [priority, policy] : policies.by_priority) {
    if (priority > config.priority_levels) break;
    show_policy(policy, (*out.mutable_priority_queue_policy())[priority]);
  }
}

void show_joining(const config::ModelConfig& config, inference::ModelDynamicBatching& out) {
  const auto level = std::ranges::find_if(
      config.levels, [](const config::LevelConfig& one) { return one.max_batch_size > 1; });
  out.mutable_preferred_batch_size()->Assign(level->preferred_batch_sizes.begin(),
                                             level->preferred_batch_sizes.end());
  out.set_max_queue_delay_microseconds(static_cast<std::uint64_t>(level->max_queue_delay.count()));
}

/// One group for GPU levels and one for CPU levels; count 0: as many as there is room for. Given
/// back with a load it means the same.
void show_instances(const config::ModelConfig& config, const std::string& model,
                    google::protobuf::RepeatedPtrField<inference::ModelInstanceGroup>& out) {
  out.Clear();
  for (const bool on_gpu : {true, false}) {
    const auto level = std::ranges::find_if(config.levels, [&](const config::LevelConfig& one) {
      return config::is_gpu_level(one) == on_gpu;
    });
    if (level == config.levels.end()) continue;
    inference::ModelInstanceGroup& group = *out.Add();
    group.set_name(model + (on_gpu ? "_gpu" : "_cpu"));
    group.set_kind(on_gpu ? inference::ModelInstanceGroup::KIND_GPU
                          : inference::ModelInstanceGroup::KIND_CPU);
    group.set_count(level->instances);
    if (on_gpu) group.mutable_gpus()->Assign(level->device_ids.begin(), level->device_ids.end());
  }
}

std::string model_file(const config::ModelConfig& config, const std::string& said) {
  if (!said.empty() || config.levels.empty()) return said;
  const auto usual = std::ranges::find(config.levels, "model.onnx", &config::LevelConfig::file);
  return usual == config.levels.end() ? config.levels.front().file : usual->file;
}

}  // namespace

Result<std::string> describe(const config::ModelConfig& config, const serving::ModelInfo& info) {
  inference::ModelConfig message;
  if (!message.ParseFromString(config.triton)) {
    return fail(Code::kInternal,
                "model '" + info.name + "': its configuration cannot be read back");
  }
  const runtime::Signature shown = serving::shown_signature(config.declared, info.signature);
  const std::uint32_t batch = max_batch_size(config, shown);
  message.set_name(info.name);
  message.set_platform("onnxruntime_onnx");
  message.set_backend("onnxruntime");
  message.set_max_batch_size(static_cast<std::int32_t>(batch));
  message.set_default_model_filename(model_file(config, message.default_model_filename()));
  show_versions(config.version_policy, *message.mutable_version_policy());
  complete(*message.mutable_input(), shown.all_inputs(), batch > 0);
  complete(*message.mutable_output(), shown.outputs, batch > 0);
  const bool joins = batch > 0 && most_joined(config) > 1;
  if (joins) show_joining(config, *message.mutable_dynamic_batching());
  if (joins || (message.has_dynamic_batching() && queues_say_anything(config))) {
    show_queues(config, *message.mutable_dynamic_batching());
  } else {
    message.clear_scheduling_choice();
  }
  show_instances(config, info.name, *message.mutable_instance_group());
  return message_json(message);
}

}  // namespace gradus::triton
