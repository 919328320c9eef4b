#include "serving/level_devices.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "config/model_config.h"
#include "runtime/fault_class.h"
#include "serving/device_group.h"

namespace gradus::serving {
namespace {

constexpr int kProofRuns = 3;

using Roster = DeviceGroup::Roster;

void tell_people(const Model& model, const LevelSlot& slot, const Roster& roster,
                 const std::string& why) {
  log::warning("model '" + model.name + "' runs level " + std::to_string(slot.config.level) +
               " on " + std::to_string(roster.serving()) + " of " +
               std::to_string(roster.devices()) + " devices: " + why);
}

std::string device_text(const LevelSlot& slot, std::size_t device) {
  return "device " + std::to_string(slot.config.device_ids[device]);
}

std::string left_alone_text(const LevelSlot& slot, std::size_t device, const std::string& why) {
  return device_text(slot, device) + " fails, and is left alone: " + why;
}

DeviceGroup* group_of(const LevelSlot& slot) {
  const LevelRuntime* const level = slot.runtime();
  return level == nullptr ? nullptr : dynamic_cast<DeviceGroup*>(level->backend.get());
}

// Of so many devices that run the level one has just come, or come back.
void tell_gain(Model& model, LevelSlot& slot, const Roster& roster, std::size_t living,
               const std::string& why) REQUIRES(roster.telling) {
  if (living == 0) return;  // it does not have the level yet, or was lost again
  if (roster.devices() > 1) tell_people(model, slot, roster, why);
  if (!slot.set_back(roster.load) || slot.runtime() == nullptr) return;
  model.ladder.level_ready(slot.config.level);
}

// The level may be published already, or be about to be: its loader looks at gone() once more.
worker::LevelHooks hooks_of(const std::weak_ptr<Model>& weak, LevelSlot& slot,
                            const std::shared_ptr<Roster>& roster, std::size_t device) {
  const auto lost = [weak, &slot, roster, device](const worker::Loss& loss) {
    const std::shared_ptr<Model> model = weak.lock();
    if (model == nullptr) return;
    const MutexLock one_at_a_time(roster->telling);
    if (roster->set_living(device, false) > 0) {
      return tell_people(*model, slot, *roster, loss.text);
    }
    if (!slot.set_gone(roster->load) || slot.runtime() == nullptr) return;
    model->ladder.level_lost(slot.config.level, loss.text);
  };
  const auto back = [weak, &slot, roster, device] {
    const std::shared_ptr<Model> model = weak.lock();
    if (model == nullptr) return;
    const MutexLock one_at_a_time(roster->telling);
    tell_gain(*model, slot, *roster, roster->set_living(device, true), "one is back");
  };
  return {.lost = lost, .back = back};
}

Result<runtime::Loaded> load_on(std::size_t device, const std::shared_ptr<Model>& model,
                                LevelSlot& slot, const std::shared_ptr<Roster>& roster,
                                const Loading& with) {
  const config::LevelConfig& level = slot.config;
  runtime::LoadSpec spec{.file = model->files / level.file,
                         .providers = level.providers,
                         .device_ids = {},
                         .threads = level.threads,
                         .execution_mode = level.execution_mode,
                         .inter_op_threads = level.inter_op_threads,
                         .allow_software_gpu = level.allow_software_gpu,
                         .check_outputs = level.check_outputs};
  for (const config::DeclaredTensor& input : model->config.declared.inputs) {
    spec.overridable.push_back(input.name);
  }
  if (!level.device_ids.empty()) spec.device_ids = {level.device_ids[device]};
  return with.workers != nullptr && config::is_isolated(level)
             ? with.workers->load(Workers::devices_of(level)[device],
                                  Workers::name_of(*model, level), model, spec, level.target_p99,
                                  hooks_of(model, slot, roster, device))
             : with.load(spec);
}

// That the member does what those that serve do.
Result<void> prove(Model& model, const LevelRuntime& level, runtime::Backend& member) {
  if (auto what = difference(level.signature(), member.signature()); !what.empty()) {
    return fail(Code::kInvalid, std::move(what));
  }
  const std::vector<std::size_t> outputs = level.all_outputs();
  const MutexLock turn(model.arrival);
  for (int i = 0; i < kProofRuns; ++i) {
    const auto run = member.run(level.sample_views, outputs);
    if (!run) return tl::unexpected(run.error());
    if (auto kept = level.contract.check(outputs, *run); !kept) return kept;
  }
  return {};
}

}  // namespace

Result<runtime::Loaded> load_on_devices(const std::shared_ptr<Model>& model, LevelSlot& slot,
                                        const Loading& with) {
  const std::size_t devices = std::max<std::size_t>(1, slot.config.device_ids.size());
  const auto roster = std::make_shared<Roster>(devices, instances_each(slot.config));
  roster->load = slot.begin_load();
  if (devices == 1) return load_on(0, model, slot, roster, with);

  Result<runtime::Loaded> all = fail(Code::kUnavailable, "");
  std::vector<std::unique_ptr<runtime::Backend>> members;
  std::string failures;
  for (std::size_t device = 0; device < devices; ++device) {
    auto loaded = load_on(device, model, slot, roster, with);
    members.push_back(loaded ? std::move(loaded->backend) : nullptr);
    if (!loaded) {
      failures += (failures.empty() ? "" : "; ") + device_text(slot, device) + ": " +
                  loaded.error().message;
    } else if (!all) {
      all = std::move(loaded);
    }
  }
  if (!all) return fail(Code::kUnavailable, failures);
  const auto told = [weak = std::weak_ptr(model), &slot, &roster = *roster](
                        std::size_t device, const std::string& why) {
    const std::shared_ptr<Model> living = weak.lock();
    if (living == nullptr) return;
    tell_people(*living, slot, roster,
                why.empty() ? device_text(slot, device) + " answers again"
                            : left_alone_text(slot, device, why));
  };
  all->backend = std::make_unique<DeviceGroup>(roster, std::move(members), told);
  if (!failures.empty()) tell_people(*model, slot, *roster, failures);
  return all;
}

void blame(const Model& model, const LevelSlot& slot, const Error& error, const Loading& with) {
  if (with.workers == nullptr || error.code != Code::kWorkerLost) return;
  with.workers->suspect(Workers::name_of(model, slot.config));
}

bool lacks_devices(const LevelSlot& slot) {
  const DeviceGroup* const group = group_of(slot);
  return group != nullptr && group->roster()->lacking();
}

bool join_devices(const std::shared_ptr<Model>& model, LevelSlot& slot, const Loading& with) {
  const LevelRuntime& level = *slot.runtime();
  auto& group = dynamic_cast<DeviceGroup&>(*level.backend);
  const std::shared_ptr<Roster>& roster = group.roster();
  bool may_come = false;
  for (auto device = roster->lacking(); device; device = roster->lacking(*device + 1)) {
    roster->set_living(*device, true);  // an earlier try may have been lost
    auto loaded = load_on(*device, model, slot, roster, with);
    const auto proven = loaded ? prove(*model, level, *loaded->backend)
                               : Result<void>(tl::unexpected(loaded.error()));
    if (!proven) {
      const std::string& why = proven.error().message;
      blame(*model, slot, proven.error(), with);
      if (!runtime::is_configuration(proven.error())) {
        may_come = true;
      } else {
        tell_people(*model, slot, *roster, device_text(slot, *device) + ": " + why + kNotAgain);
      }
      continue;
    }
    const MutexLock one_at_a_time(roster->telling);
    const std::size_t living = group.join(*device, std::move(loaded->backend));
    tell_gain(*model, slot, *roster, living, device_text(slot, *device) + " has come");
  }
  return may_come;
}

std::string left_alone_devices(const LevelSlot& slot) {
  std::string text;
  const DeviceGroup* const group = group_of(slot);
  if (group == nullptr) return text;
  for (const auto& [device, error] : group->roster()->left_alone()) {
    text += (text.empty() ? "" : "; ") + left_alone_text(slot, device, error);
  }
  return text;
}

bool leaves_devices_alone(const LevelSlot& slot) {
  const DeviceGroup* const group = group_of(slot);
  return group != nullptr && group->roster()->any_left_alone();
}

void try_left_alone_devices(const LevelSlot& slot) {
  const LevelRuntime& level = *slot.runtime();
  if (auto* const group = group_of(slot)) {
    group->try_left_alone(level.sample_views, level.all_outputs());
  }
}

void follow_devices(runtime::Backend& backend, const std::shared_ptr<Lane>& lane) {
  if (auto* const group = dynamic_cast<DeviceGroup*>(&backend)) group->roster()->follow(lane);
}

}  // namespace gradus::serving
