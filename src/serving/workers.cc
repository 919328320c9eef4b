#include "serving/workers.h"

#include <utility>

#include "serving/model.h"

namespace gradus::serving {
namespace {

std::string own_place(const std::string& device, const std::string& level) {
  return device + " for " + level;
}

}  // namespace

Workers::Workers(worker::Supervisor::Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

// None of them may move a level out any more when they go.
Workers::~Workers() {
  std::vector<worker::Supervisor*> supervisors;
  {
    const MutexLock lock(mutex_);
    for (const auto& [place, supervisor] : supervisors_) supervisors.push_back(supervisor.get());
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
  std::unique_ptr<worker::Supervisor>& supervisor = supervisors_[place];
  if (supervisor == nullptr) {
    worker::Supervisor::Options options = options_;
    options.worker.greeting.device = place;
    if (alone) options.reload_limit = options.load_limit;  // nobody waits behind it
    options.seed += supervisors_.size();                   // so that two do not start again in step
    supervisor = std::make_unique<worker::Supervisor>(std::move(options), clock_);
  }
  return *supervisor;
}

std::string Workers::name_of(const Model& model, const config::LevelConfig& level) {
  return model.name + " version " + model.version + " level " + std::to_string(level.level);
}

Result<runtime::Loaded> Workers::load(const std::string& device, const std::string& level,
                                      const runtime::LoadSpec& spec, Duration target,
                                      worker::LevelHooks hooks) {
  worker::Supervisor* supervisor = nullptr;
  {
    const MutexLock lock(mutex_);
    const bool alone = suspects_.contains(level);
    supervisor = &at(alone ? own_place(device, level) : device, alone);
    if (!alone) {
      hooks.suspect = [this, device, level](worker::Seat seat) {
        move_out(device, level, std::move(seat));
      };
    }
  }
  auto loaded = supervisor->load(spec, target, std::move(hooks));
  if (!loaded && loaded.error().code == Code::kWorkerLost) suspect(level);
  return loaded;
}

void Workers::suspect(const std::string& level) {
  const MutexLock lock(mutex_);
  suspects_.insert(level);
}

void Workers::move_out(const std::string& device, const std::string& level, worker::Seat seat) {
  suspect(level);
  const MutexLock lock(mutex_);
  at(own_place(device, level), true).adopt(std::move(seat));
}

std::optional<worker::WorkerStatus> Workers::of(const std::string& device,
                                                const std::string& level) const {
  const MutexLock lock(mutex_);
  for (const std::string& place : {own_place(device, level), device}) {
    const auto found = supervisors_.find(place);
    if (found != supervisors_.end()) return found->second->status();
  }
  return std::nullopt;
}

std::vector<worker::WorkerStatus> Workers::all() const {
  const MutexLock lock(mutex_);
  std::vector<worker::WorkerStatus> statuses;
  for (const auto& [device, supervisor] : supervisors_) statuses.push_back(supervisor->status());
  return statuses;
}

}  // namespace gradus::serving
