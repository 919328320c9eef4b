#include "serving/workers.h"

#include <algorithm>
#include <utility>

#include "serving/model.h"

namespace gradus::serving {
namespace {

std::string own_place(const std::string& device, const LevelName& name) {
  return device + " for " + name.model + " version " + name.version + " level " +
         std::to_string(name.level);
}

}  // namespace

Workers::Workers(worker::Supervisor::Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

// None of them may move a level out any more when they go.
Workers::~Workers() {
  std::vector<worker::Supervisor*> supervisors;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, place] : places_) supervisors.push_back(place.supervisor.get());
  }
  for (worker::Supervisor* const supervisor : supervisors) supervisor->stop();
}

std::vector<std::string> Workers::devices_of(const config::LevelConfig& level) {
  const std::string kind = config::is_gpu_level(level) ? "gpu:" : "cpu:";
  if (level.device_ids.empty()) return {kind + "0"};
  std::vector<std::string> devices;
  for (const int id : level.device_ids) devices.push_back(kind + std::to_string(id));
  return devices;
}

worker::Supervisor& Workers::at(const std::string& place, bool alone) {
  std::unique_ptr<worker::Supervisor>& supervisor = places_[place].supervisor;
  if (supervisor == nullptr) {
    worker::Supervisor::Options options = options_;
    options.worker.greeting.device = place;
    if (alone) options.reload_limit = options.load_limit;  // nobody waits behind it
    options.seed += places_.size();                        // so that two do not start again in step
    supervisor = std::make_unique<worker::Supervisor>(std::move(options), clock_);
  }
  return *supervisor;
}

worker::Supervisor& Workers::own(const std::string& device, const LevelName& level,
                                 const std::shared_ptr<const void>& owner) {
  const std::string place = own_place(device, level);
  worker::Supervisor& supervisor = at(place, true);
  auto& owners = places_.at(place).owners;
  std::erase_if(owners, [](const auto& one) { return one.expired(); });
  owners.insert(owner);
  return supervisor;
}

LevelName Workers::name_of(const Model& model, const config::LevelConfig& level) {
  return {model.name, model.version, level.level};
}

Result<runtime::Loaded> Workers::load(const std::string& device, const LevelName& level,
                                      const std::shared_ptr<const void>& owner,
                                      const runtime::LoadSpec& spec, Duration target,
                                      worker::LevelHooks hooks) {
  worker::Supervisor* supervisor = nullptr;
  {
    const MutexLock lock(mutex_);
    const bool alone = suspects_.contains({level.model, level.level});
    supervisor = alone ? &own(device, level, owner) : &at(device, false);
    if (!alone) {
      hooks.suspect = [this, device, level, owner = std::weak_ptr(owner)](worker::Seat seat) {
        move_out(device, level, owner, std::move(seat));
      };
    }
  }
  auto loaded = supervisor->load(spec, target, std::move(hooks));
  if (!loaded && loaded.error().code == Code::kWorkerLost) suspect(level);
  return loaded;
}

void Workers::suspect(const LevelName& level) {
  const MutexLock lock(mutex_);
  suspects_.emplace(level.model, level.level);
}

bool Workers::is_suspect(const LevelName& level) const {
  const MutexLock lock(mutex_);
  return suspects_.contains({level.model, level.level});
}

void Workers::move_out(const std::string& device, const LevelName& level,
                       const std::weak_ptr<const void>& owner, worker::Seat seat) {
  suspect(level);
  const auto living = owner.lock();  // let go without the lock held: it may end with that
  if (living == nullptr) return;
  const MutexLock lock(mutex_);
  own(device, level, living).adopt(std::move(seat));
}

void Workers::end_unowned() {
  std::vector<std::unique_ptr<worker::Supervisor>> ended;  // without the lock held
  const MutexLock lock(mutex_);
  for (auto place = places_.begin(); place != places_.end();) {
    const auto& owners = place->second.owners;
    if (owners.empty() || !std::ranges::all_of(owners, &std::weak_ptr<const void>::expired)) {
      ++place;
      continue;
    }
    ended.push_back(std::move(place->second.supervisor));
    place = places_.erase(place);
  }
}

std::optional<worker::WorkerStatus> Workers::of(const std::string& device,
                                                const LevelName& level) const {
  const MutexLock lock(mutex_);
  for (const std::string& place : {own_place(device, level), device}) {
    const auto found = places_.find(place);
    if (found != places_.end()) return found->second.supervisor->status();
  }
  return std::nullopt;
}

std::vector<worker::WorkerStatus> Workers::all() const {
  const MutexLock lock(mutex_);
  std::vector<worker::WorkerStatus> statuses;
  for (const auto& [name, place] : places_) statuses.push_back(place.supervisor->status());
  return statuses;
}

}  // namespace gradus::serving
