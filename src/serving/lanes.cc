#include "serving/lanes.h"

#include <algorithm>

namespace gradus::serving {

Lanes::Lanes(int cpus, std::size_t capacity)
    : cpus_(cpus), capacity_(capacity), shared_cpu_("run-cpu", cpus, capacity) {}

RunLane& Lanes::lane_for(const std::string& model, const config::LevelConfig& level, bool on_gpu) {
  if (level.instances == 0 && !on_gpu && level.threads == 1) return shared_cpu_;
  int threads = level.instances;
  if (threads == 0) threads = on_gpu ? 1 : std::max(1, cpus_ / level.threads);
  if (level.device_ids.size() > 1) threads *= static_cast<int>(level.device_ids.size());
  auto lane = std::make_unique<RunLane>("run-" + model, threads, capacity_);
  const MutexLock lock(mutex_);
  own_.push_back(std::move(lane));
  return *own_.back();
}

}  // namespace gradus::serving
