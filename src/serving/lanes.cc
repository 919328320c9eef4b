#include "serving/lanes.h"

#include <algorithm>

namespace gradus::serving {

Lanes::Lanes(int cpus, const Clock& clock)
    : cpus_(cpus), clock_(clock), shared_cpu_("run-cpu", cpus, clock) {}

Lanes::~Lanes() {
  shared_cpu_.stop();
  const MutexLock lock(mutex_);
  for (const auto& lane : own_) lane->stop();
}

Lane& Lanes::lane_for(const std::string& model, const config::LevelConfig& level, bool on_gpu) {
  if (level.instances == 0 && !on_gpu && level.threads == 1) return shared_cpu_;
  int instances = level.instances;
  if (instances == 0) instances = on_gpu ? 1 : std::max(1, cpus_ / level.threads);
  if (level.device_ids.size() > 1) instances *= static_cast<int>(level.device_ids.size());
  auto lane = std::make_unique<Lane>("run-" + model, instances, clock_);
  const MutexLock lock(mutex_);
  own_.push_back(std::move(lane));
  return *own_.back();
}

}  // namespace gradus::serving
