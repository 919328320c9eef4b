#include "serving/lanes.h"

#include <algorithm>

namespace gradus::serving {

int instances_each(const config::LevelConfig& level) { return std::max(1, level.instances); }

Lanes::Lanes(int cpus, const Clock& clock)
    : cpus_(cpus), clock_(clock), shared_cpu_(std::make_shared<Lane>("run-cpu", cpus, clock)) {}

Lanes::~Lanes() { stop(); }

void Lanes::stop() {
  shared_cpu_->stop();
  std::vector<std::shared_ptr<Lane>> living;
  {
    const MutexLock lock(mutex_);
    for (const auto& lane : own_) living.push_back(lane.lock());
  }
  for (const auto& lane : living) {
    if (lane != nullptr) lane->stop();
  }
}

std::shared_ptr<Lane> Lanes::lane_for(const std::string& model, const config::LevelConfig& level,
                                      bool on_gpu) {
  const int devices = static_cast<int>(level.device_ids.size());
  int instances = level.instances;
  if (devices > 1) {
    instances = devices * instances_each(level);
  } else if (instances == 0) {
    if (!on_gpu && level.threads == 1) return shared_cpu_;
    instances = on_gpu ? 1 : std::max(1, cpus_ / level.threads);
  }
  auto lane = std::make_shared<Lane>("run-" + model, instances, clock_);
  const MutexLock lock(mutex_);
  std::erase_if(own_, [](const auto& one) { return one.expired(); });
  own_.push_back(lane);
  return lane;
}

}  // namespace gradus::serving
