// Which lane a level runs on. CPU levels of all models share one, with as many instances as CPUs; a
// level that sets `instances` or `threads`, and every GPU level, has a lane of its own.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/model_config.h"
#include "serving/lane.h"

namespace gradus::serving {

class Lanes {
 public:
  /// @param cpus usable CPUs, >= 1
  Lanes(int cpus, const Clock& clock);
  /// Stops all lanes before it ends the first.
  ~Lanes();

  /// Any thread. The lane lives as long as this object.
  Lane& lane_for(const std::string& model, const config::LevelConfig& level, bool on_gpu);

 private:
  const int cpus_;
  const Clock& clock_;
  Lane shared_cpu_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> own_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
