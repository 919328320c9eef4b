// The worker processes of this server, one a device, and which levels live in which.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/model_config.h"
#include "worker/supervisor.h"

namespace gradus::serving {

class Workers {
 public:
  /// @param options of each worker; the device's name is filled in
  Workers(worker::Supervisor::Options options, const Clock& clock);

  /// `gpu:1` for a level with a GPU provider, `cpu:1` for any other; one for each of its
  /// device_ids, or the first device alone.
  static std::vector<std::string> devices_of(const config::LevelConfig& level);

  /// Loads an isolated level in the device's worker. Any thread; blocks. What it returns fails
  /// once this object is gone.
  /// @param target of one run
  Result<runtime::Loaded> load(const std::string& device, const runtime::LoadSpec& spec,
                               Duration target, worker::LevelHooks hooks);

  /// Nothing: no worker was ever wanted for the device.
  std::optional<worker::WorkerStatus> of(const std::string& device) const;
  std::vector<worker::WorkerStatus> all() const;  // by device

 private:
  const worker::Supervisor::Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<worker::Supervisor>> supervisors_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
