#include "serving/lanes.h"

#include <algorithm>

namespace gradus::serving {
namespace {

// In parallel mode who asks ONNX Runtime for a run waits for the other threads without sleeping.
int cpus_of_run(const config::LevelConfig& level) {
  return level.threads + (level.execution_mode == config::ExecutionMode::kParallel ? 1 : 0);
}

}  // namespace

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
    const int busy = cpus_of_run(level);
    if (!on_gpu && busy == 1) return shared_cpu_;
    instances = on_gpu ? 1 : std::max(1, cpus_ / busy);
  }
  auto lane = std::make_shared<Lane>("run-" + model, instances, clock_);
  const MutexLock lock(mutex_);
  std::erase_if(own_, [](const auto& one) { return one.expired(); });
  own_.push_back(lane);
  return lane;
}

}  // namespace gradus::serving
