#include "serving/workers.h"

#include <utility>

namespace gradus::serving {

Workers::Workers(worker::Supervisor::Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

std::vector<std::string> Workers::devices_of(const config::LevelConfig& level) {
  const std::string kind = config::is_gpu_level(level) ? "gpu:" : "cpu:";
  if (level.device_ids.empty()) return {kind + "0"};
  std::vector<std::string> devices;
  for (const int id : level.device_ids) devices.push_back(kind + std::to_string(id));
  return devices;
}

Result<runtime::Loaded> Workers::load(const std::string& device, const runtime::LoadSpec& spec,
                                      Duration target, worker::LevelHooks hooks) {
  worker::Supervisor* supervisor = nullptr;
  {
    const MutexLock lock(mutex_);
    std::unique_ptr<worker::Supervisor>& place = supervisors_[device];
    if (place == nullptr) {
      worker::Supervisor::Options options = options_;
      options.worker.greeting.device = device;
      options.seed += supervisors_.size();  // so that two do not start again in step
      place = std::make_unique<worker::Supervisor>(std::move(options), clock_);
    }
    supervisor = place.get();
  }
  return supervisor->load(spec, target, std::move(hooks));
}

std::optional<worker::WorkerStatus> Workers::of(const std::string& device) const {
  const MutexLock lock(mutex_);
  const auto found = supervisors_.find(device);
  if (found == supervisors_.end()) return std::nullopt;
  return found->second->status();
}

std::vector<worker::WorkerStatus> Workers::all() const {
  const MutexLock lock(mutex_);
  std::vector<worker::WorkerStatus> statuses;
  for (const auto& [device, supervisor] : supervisors_) statuses.push_back(supervisor->status());
  return statuses;
}

}  // namespace gradus::serving
