// Which lane a level runs on. CPU levels of all models share one, with as many threads as CPUs; a
// level that sets `instances` or `threads`, and every GPU level, has a lane of its own.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/model_config.h"
#include "serving/run_lane.h"

namespace gradus::serving {

class Lanes {
 public:
  /// @param cpus usable CPUs, >= 1
  /// @param capacity of each lane's queue
  Lanes(int cpus, std::size_t capacity);

  /// Any thread. The lane lives as long as this object.
  RunLane& lane_for(const std::string& model, const config::LevelConfig& level, bool on_gpu);

 private:
  const int cpus_;
  const std::size_t capacity_;
  RunLane shared_cpu_;
  Mutex mutex_;
  std::vector<std::unique_ptr<RunLane>> own_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
