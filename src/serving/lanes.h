// Which lane a level runs on. CPU levels of all models share one, with as many instances as CPUs; a
// level that sets `instances`, `threads` or `execution_mode`, or names several devices, and every
// GPU level, has a lane of its own.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/model_config.h"
#include "serving/lane.h"

namespace gradus::serving {

/// Runs at once on each device of a level that names several.
int instances_each(const config::LevelConfig& level);

class Lanes {
 public:
  /// @param cpus usable CPUs, >= 1
  Lanes(int cpus, const Clock& clock);
  /// stop().
  ~Lanes();

  /// Lane::stop() of all; lanes that come later run as ever.
  void stop();

  /// Any thread. A lane of its own lives as long as somebody holds it.
  std::shared_ptr<Lane> lane_for(const std::string& model, const config::LevelConfig& level,
                                 bool on_gpu);

 private:
  const int cpus_;
  const Clock& clock_;
  const std::shared_ptr<Lane> shared_cpu_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Lane>> own_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
