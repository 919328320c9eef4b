#include "serving/level_devices.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "config/model_config.h"
#include "serving/device_group.h"

namespace gradus::serving {
namespace {

// What the level's devices tell, one at a time, so that the last word to the ladder is the true
// one.
struct Watch {
  Mutex mutex;
  std::shared_ptr<DeviceGroup::Roster> roster;
  std::size_t devices = 1;
};

void tell_people(const Model& model, const LevelSlot& slot, std::size_t living, std::size_t of,
                 const std::string& why) {
  log::warning("model '" + model.name + "' runs level " + std::to_string(slot.config.level) +
               " on " + std::to_string(living) + " of " + std::to_string(of) + " devices: " + why);
}

// The level may be published already, or be about to be: its loader looks at `gone` once more.
worker::LevelHooks hooks_of(const std::weak_ptr<Model>& weak, LevelSlot& slot,
                            const std::shared_ptr<Watch>& watch, std::size_t device) {
  const auto lost = [weak, &slot, watch, device](const worker::Loss& loss) {
    const std::shared_ptr<Model> model = weak.lock();
    if (model == nullptr) return;
    const MutexLock one_at_a_time(watch->mutex);
    const std::size_t living = watch->roster->set_living(device, false);
    if (living > 0) return tell_people(*model, slot, living, watch->devices, loss.text);
    slot.gone = true;
    if (slot.runtime() != nullptr) model->ladder.level_lost(slot.config.level, loss.text);
  };
  const auto back = [weak, &slot, watch, device] {
    const std::shared_ptr<Model> model = weak.lock();
    if (model == nullptr) return;
    const MutexLock one_at_a_time(watch->mutex);
    const std::size_t living = watch->roster->set_living(device, true);
    if (watch->devices > 1) tell_people(*model, slot, living, watch->devices, "one is back");
    if (!slot.gone.exchange(false)) return;
    if (slot.runtime() != nullptr) model->ladder.level_ready(slot.config.level);
  };
  return {.lost = lost, .back = back};
}

}  // namespace

Result<runtime::Loaded> load_on_devices(const std::shared_ptr<Model>& model, LevelSlot& slot,
                                        const Loading& with) {
  const config::LevelConfig& level = slot.config;
  runtime::LoadSpec spec{.file = model->files / level.file,
                         .providers = level.providers,
                         .device_ids = level.device_ids,
                         .threads = level.threads,
                         .allow_software_gpu = level.allow_software_gpu,
                         .check_outputs = level.check_outputs};
  const std::size_t devices = std::max<std::size_t>(1, level.device_ids.size());
  const auto watch = std::make_shared<Watch>();
  watch->devices = devices;
  watch->roster = std::make_shared<DeviceGroup::Roster>(devices, instances_each(level));
  const auto load_one = [&](std::size_t device) {
    if (!level.device_ids.empty()) spec.device_ids = {level.device_ids[device]};
    return with.workers != nullptr && config::is_isolated(level)
               ? with.workers->load(Workers::devices_of(level)[device], spec, level.target_p99,
                                    hooks_of(model, slot, watch, device))
               : with.load(spec);
  };
  if (devices == 1) return load_one(0);

  Result<runtime::Loaded> all = fail(Code::kUnavailable, "");
  std::vector<std::unique_ptr<runtime::Backend>> members;
  std::string failures;
  for (std::size_t device = 0; device < devices; ++device) {
    auto loaded = load_one(device);
    members.push_back(loaded ? std::move(loaded->backend) : nullptr);
    if (!loaded) {
      failures += (failures.empty() ? "device " : "; device ") +
                  std::to_string(level.device_ids[device]) + ": " + loaded.error().message;
    } else if (!all) {
      all = std::move(loaded);
    }
  }
  if (!all) return fail(Code::kUnavailable, failures);
  auto group = std::make_unique<DeviceGroup>(watch->roster, std::move(members));
  if (!failures.empty()) {
    tell_people(*model, slot, watch->roster->living(), devices, failures);
  }
  all->backend = std::move(group);
  return all;
}

void follow_devices(runtime::Backend& backend, const std::shared_ptr<Lane>& lane) {
  if (auto* const group = dynamic_cast<DeviceGroup*>(&backend)) group->roster()->follow(lane);
}

}  // namespace gradus::serving
