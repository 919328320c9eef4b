#include "triton/levels.h"

#include <model_config.pb.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_count.h"
#include "base/json_text.h"
#include "triton/accelerators.h"
#include "triton/sorted_keys.h"

namespace gradus::triton {
namespace {

constexpr int kMostInstances = 256;
constexpr int kMostThreads = 256;
constexpr int kLastDevice = 255;
constexpr std::uint32_t kMostJoined = 1024;
constexpr std::uint64_t kLongestDelay = 10'000'000;        // us
constexpr std::uint64_t kLongestTimeout = 86'400'000'000;  // us
constexpr std::uint64_t kMostWaiting = 1'000'000;
constexpr std::uint64_t kMostPriorities = 1'000'000;
constexpr const char* kCuda = "CUDAExecutionProvider";

/// Nothing and 0 where the default ladder stays as it is.
struct Changes {
  bool gpu_level = true;
  int gpu_instances = 0;  // on each device
  std::vector<int> devices;
  int cpu_instances = 0;
  int threads = 0;
  bool parallel = false;
  int inter_op_threads = 0;
  std::vector<config::ProviderConfig> gpu, cpu;  // tried before the others
  std::map<std::string, std::string> cuda;
  std::optional<std::uint32_t> joined;  // samples in one run
  std::chrono::microseconds delay{0};
  std::vector<std::uint32_t> preferred;
  std::uint32_t max_queue_size = 0;
  config::QueuePolicies queue_policies;
  std::uint32_t priority_levels = 0;
  std::uint32_t default_priority = 0;
};

template <class N>
std::string bad(N value, std::uint64_t least, std::uint64_t most) {
  return std::to_string(value) + ": must be in [" + std::to_string(least) + ", " +
         std::to_string(most) + "]";
}

void note_ignored(const inference::ModelInstanceGroup& group, const std::string& path,
                  Findings& findings) {
  if (group.has_rate_limiter()) {
    findings.ignore(path + ".rate_limiter", "models share devices by their load");
  }
  if (group.secondary_devices_size() > 0) {
    findings.ignore(path + ".secondary_devices", "only TensorRT has them");
  }
  if (group.profile_size() > 0) findings.ignore(path + ".profile", "only TensorRT has them");
  if (group.passive()) findings.ignore(path + ".passive", "every instance takes requests");
  if (!group.host_policy().empty()) findings.ignore(path + ".host_policy", "there are none");
}

void read_instances(const inference::ModelConfig& message, Changes& out, Findings& findings) {
  std::map<int, int> on_device;  // -1: the provider's default device
  bool on_cpu = false;
  for (int i = 0; i < message.instance_group_size(); ++i) {
    const inference::ModelInstanceGroup& group = message.instance_group(i);
    const std::string path = "instance_group[" + std::to_string(i) + "]";
    note_ignored(group, path, findings);
    if (group.count() < 0 || group.count() > kMostInstances) {
      findings.refuse(path + ".count", bad(group.count(), 0, kMostInstances));
      continue;
    }
    const bool own_devices = group.kind() == inference::ModelInstanceGroup::KIND_AUTO ||
                             group.kind() == inference::ModelInstanceGroup::KIND_GPU;
    if (group.gpus_size() > 0 && !own_devices) {
      findings.refuse(path + ".gpus", "cannot stand beside " +
                                          inference::ModelInstanceGroup::Kind_Name(group.kind()));
      continue;
    }
    if (group.kind() == inference::ModelInstanceGroup::KIND_CPU) {
      on_cpu = true;
      out.cpu_instances += group.count();
      continue;
    }
    for (const int gpu : group.gpus()) {
      if (gpu < 0 || gpu > kLastDevice) {
        findings.refuse(path + ".gpus", bad(gpu, 0, kLastDevice));
      } else {
        on_device[gpu] += group.count();
      }
    }
    if (group.gpus_size() == 0) on_device[-1] += group.count();
  }
  out.gpu_level = !on_device.empty() || !on_cpu;
  out.cpu_instances = std::min(out.cpu_instances, kMostInstances);
  for (const auto& [device, count] : on_device) {
    if (device >= 0) out.devices.push_back(device);
    out.gpu_instances = std::max(out.gpu_instances, std::min(count, kMostInstances));
  }
}

config::QueuePolicy read_policy(const inference::ModelQueuePolicy& policy, const std::string& path,
                                Findings& findings) {
  if (policy.max_queue_size() > kMostWaiting) {
    findings.refuse(path + ".max_queue_size", bad(policy.max_queue_size(), 0, kMostWaiting));
  }
  const std::uint64_t timeout = policy.default_timeout_microseconds();
  const bool delays = policy.timeout_action() == inference::ModelQueuePolicy::DELAY;
  if (timeout > kLongestTimeout) {
    findings.refuse(path + ".default_timeout_microseconds", bad(timeout, 0, kLongestTimeout));
  } else if (timeout > 0 && !delays) {
    findings.note(path + ".default_timeout_microseconds", "is a deadline: of waiting and running");
  }
  return {.timeout = std::chrono::microseconds(static_cast<std::int64_t>(timeout)),
          .timeout_action = delays ? config::TimeoutAction::kDelay : config::TimeoutAction::kReject,
          .allow_timeout_override = policy.allow_timeout_override(),
          .max_queue_size = policy.max_queue_size()};
}

/// Without priorities there is one queue, which the default policy bounds. Else a level takes as
/// many as all priorities together may, where that is more than it takes otherwise.
void bound_queue(const config::ServerConfig& server, Changes& out) {
  config::QueuePolicies& policies = out.queue_policies;
  if (out.priority_levels == 0) {
    out.max_queue_size = std::exchange(policies.usual.max_queue_size, 0U);
    return;
  }
  std::uint64_t all = (out.priority_levels - policies.by_priority.size()) *
                      std::uint64_t{policies.usual.max_queue_size};
  for (const auto& [priority, policy] : policies.by_priority) all += policy.max_queue_size;
  if (all > server.max_queue_size) {
    out.max_queue_size = static_cast<std::uint32_t>(std::min(all, kMostWaiting));
  }
}

void read_priorities(const inference::ModelDynamicBatching& batching, Changes& out,
                     Findings& findings) {
  const std::string path = "dynamic_batching.";
  const std::uint64_t levels = batching.priority_levels();
  const std::uint64_t usual = batching.default_priority_level();
  if (levels > kMostPriorities) {
    findings.refuse(path + "priority_levels", bad(levels, 0, kMostPriorities));
    return;
  }
  if (levels == 0 ? usual != 0 : usual < 1 || usual > levels) {
    findings.refuse(path + "default_priority_level",
                    levels == 0 ? "needs priority_levels beside it" : bad(usual, 1, levels));
    return;
  }
  out.priority_levels = static_cast<std::uint32_t>(levels);
  out.default_priority = static_cast<std::uint32_t>(usual);
  if (levels == 0 && !batching.priority_queue_policy().empty()) {
    findings.refuse(path + "priority_queue_policy", "needs priority_levels beside it");
    return;
  }
  for (const std::uint64_t level : sorted_keys(batching.priority_queue_policy())) {
    if (level < 1 || level > levels) {
      findings.refuse(path + "priority_queue_policy", "key " + bad(level, 1, levels));
      continue;
    }
    out.queue_policies.by_priority[level] =
        read_policy(batching.priority_queue_policy().at(level),
                    path + "priority_queue_policy." + std::to_string(level), findings);
  }
}

void read_preferred(const inference::ModelDynamicBatching& batching, std::uint32_t most,
                    Changes& out, Findings& findings) {
  std::set<std::uint32_t> sizes;
  for (const int size : batching.preferred_batch_size()) {
    if (size < 1 || static_cast<std::uint32_t>(size) > most) {
      findings.refuse("dynamic_batching.preferred_batch_size", bad(size, 1, most));
    } else {
      sizes.insert(static_cast<std::uint32_t>(size));
    }
  }
  out.preferred.assign(sizes.begin(), sizes.end());
}

void read_batching(const inference::ModelConfig& message, const config::Declared& declared,
                   const config::ServerConfig& server, Changes& out, Findings& findings) {
  if (!message.has_dynamic_batching()) {
    if (declared.max_batch_size) out.joined = 1;
    return;
  }
  const inference::ModelDynamicBatching& batching = message.dynamic_batching();
  read_priorities(batching, out, findings);
  if (batching.has_default_queue_policy()) {
    out.queue_policies.usual = read_policy(batching.default_queue_policy(),
                                           "dynamic_batching.default_queue_policy", findings);
  }
  bound_queue(server, out);
  if (batching.preserve_ordering()) {
    findings.ignore("dynamic_batching.preserve_ordering",
                    "answers go to who asked; those of a stream keep their order");
  }
  if (declared.max_batch_size == 0U) {
    out.joined = 1;
    if (batching.preferred_batch_size_size() > 0) {
      findings.refuse("dynamic_batching.preferred_batch_size", "needs a max_batch_size over 0");
    }
    findings.ignore("dynamic_batching", "max_batch_size is 0, so requests are not joined");
    return;
  }
  if (declared.max_batch_size) {
    out.joined = std::min(*declared.max_batch_size, kMostJoined);
    if (*declared.max_batch_size > kMostJoined) {
      findings.note("max_batch_size",
                    "requests are joined to at most " + std::to_string(kMostJoined) + " samples");
    }
  }
  read_preferred(batching, declared.max_batch_size.value_or(kMostJoined), out, findings);
  if (batching.max_queue_delay_microseconds() > kLongestDelay) {
    findings.refuse("dynamic_batching.max_queue_delay_microseconds",
                    bad(batching.max_queue_delay_microseconds(), 0, kLongestDelay));
  } else {
    out.delay = std::chrono::microseconds(
        static_cast<std::int64_t>(batching.max_queue_delay_microseconds()));
  }
}

void read_optimization(const inference::ModelOptimizationPolicy& policy,
                       const config::ServerConfig& server, Changes& out, Findings& findings) {
  if (policy.has_execution_accelerators()) {
    out.gpu = read_accelerators(policy, true, server, findings);
    out.cpu = read_accelerators(policy, false, server, findings);
  }
  if (!out.gpu.empty() && !out.gpu_level) {
    findings.ignore("optimization.execution_accelerators.gpu_execution_accelerator",
                    "every instance_group is KIND_CPU");
  }
  const auto ignore = [&](bool given, const char* field, const char* why) {
    if (given) findings.ignore(std::string("optimization.") + field, why);
  };
  ignore(policy.graph().level() != 0, "graph.level", "every optimization is always on");
  ignore(policy.priority() != inference::ModelOptimizationPolicy::PRIORITY_DEFAULT, "priority",
         "requests have priorities, models have none");
  ignore(policy.has_cuda(), "cuda", "these are settings of TensorRT's own");
  ignore(policy.has_input_pinned_memory(), "input_pinned_memory", "memory is chosen by itself");
  ignore(policy.has_output_pinned_memory(), "output_pinned_memory", "memory is chosen by itself");
  ignore(policy.gather_kernel_buffer_threshold() != 0, "gather_kernel_buffer_threshold",
         "this is a setting of TensorRT's own");
  ignore(policy.eager_batching(), "eager_batching", "this is a setting of TensorRT's own");
}

/// A whole number in [0, most]; nothing after a fault.
std::optional<int> read_number(const std::string& key, const std::string& text, int most,
                               Findings& findings) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end && number >= 0 && number <= most) return number;
  findings.refuse("parameters", json_string(key) + ": string_value " + json_string(text) +
                                    ": must be an integer in [0, " + std::to_string(most) + "]");
  return std::nullopt;
}

void read_parameter(const std::string& key, const std::string& text, Changes& out,
                    Findings& findings) {
  static const std::vector<std::string> searches = {"EXHAUSTIVE", "HEURISTIC", "DEFAULT"};
  static const std::vector<std::string> strategies = {"kNextPowerOfTwo", "kSameAsRequested"};
  const auto one_of = [&](const std::vector<std::string>& names) {
    if (const auto number = read_number(key, text, static_cast<int>(names.size()) - 1, findings)) {
      out.cuda[key] = names[static_cast<std::size_t>(*number)];
    }
  };
  if (key == "intra_op_thread_count") {
    out.threads = read_number(key, text, kMostThreads, findings).value_or(0);
  } else if (key == "execution_mode") {
    out.parallel = read_number(key, text, 1, findings) == 1;
  } else if (key == "inter_op_thread_count") {
    out.inter_op_threads = read_number(key, text, kMostThreads, findings).value_or(0);
  } else if (key == "cudnn_conv_algo_search") {
    one_of(searches);
  } else if (key == "arena_extend_strategy") {
    one_of(strategies);
  } else if (key == "gpu_mem_limit" || key == "do_copy_in_default_stream") {
    out.cuda[key] = text;
  } else if (key.starts_with("gradus.") || key == "level" || key.starts_with("level.")) {
    findings.refuse("parameters", "unknown key " + json_string(key) +
                                      "; settings of Gradus stand in one, \"gradus\", as YAML");
  } else if (key != "gradus") {  // which is read apart
    findings.ignore("parameters", json_string(key) + " is no parameter of this backend");
  }
}

void put_first(std::vector<config::ProviderConfig>& providers,
               const std::vector<config::ProviderConfig>& first) {
  std::vector<config::ProviderConfig> all = first;
  for (config::ProviderConfig& provider : providers) {
    const bool there = std::ranges::any_of(
        first, [&](const config::ProviderConfig& other) { return other.name == provider.name; });
    if (!there) all.push_back(std::move(provider));
  }
  providers = std::move(all);
}

void change_gpu_level(const Changes& changes, config::LevelConfig& level) {
  put_first(level.providers, changes.gpu);
  for (config::ProviderConfig& provider : level.providers) {
    if (provider.name == kCuda) provider.options.insert(changes.cuda.begin(), changes.cuda.end());
  }
  if (changes.gpu_instances > 0) level.instances = changes.gpu_instances;
  level.device_ids = changes.devices;
}

void change_cpu_level(const Changes& changes, config::LevelConfig& level) {
  put_first(level.providers, changes.cpu);
  level.instances = changes.cpu_instances;
  if (changes.parallel) level.execution_mode = config::ExecutionMode::kParallel;
  level.inter_op_threads = changes.inter_op_threads;
  if (changes.threads > 0) {
    level.threads = changes.threads;
  } else if (changes.cpu_instances > 0) {  // together they use the machine, as with Triton
    level.threads = std::clamp(usable_cpus() / changes.cpu_instances, 1, kMostThreads);
  }
}

void change_joining(const Changes& changes, config::LevelConfig& level) {
  if (level.max_batch_size == 1) return;  // what gains nothing by it is not joined
  if (changes.joined) level.max_batch_size = *changes.joined;
  if (level.max_batch_size == 1) return;
  level.max_queue_delay = changes.delay;
  for (const std::uint32_t size : changes.preferred) {
    if (size <= level.max_batch_size) level.preferred_batch_sizes.push_back(size);
  }
}

void apply(const Changes& changes, config::ModelConfig& config) {
  if (!changes.gpu_level) std::erase_if(config.levels, config::is_gpu_level);
  for (config::LevelConfig& level : config.levels) {
    if (config::is_gpu_level(level)) {
      change_gpu_level(changes, level);
    } else {
      change_cpu_level(changes, level);
    }
    change_joining(changes, level);
  }
  config.max_queue_size = changes.max_queue_size;
  config.queue_policies = changes.queue_policies;
  config.priority_levels = changes.priority_levels;
  config.default_priority = changes.default_priority;
}

}  // namespace

std::function<void(config::ModelConfig&)> read_levels(const inference::ModelConfig& message,
                                                      const config::Declared& declared,
                                                      const config::ServerConfig& server,
                                                      Findings& findings) {
  Changes changes;
  read_instances(message, changes, findings);
  read_batching(message, declared, server, changes, findings);
  read_optimization(message.optimization(), server, changes, findings);
  for (const std::string& key : sorted_keys(message.parameters())) {
    read_parameter(key, message.parameters().at(key).string_value(), changes, findings);
  }
  return [changes = std::move(changes)](config::ModelConfig& config) { apply(changes, config); };
}

}  // namespace gradus::triton
