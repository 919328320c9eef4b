// The worker processes of this server, and which levels live in which: one a device, and one more
// for each level whose load has ended one, so that it ends none of the others' again
// (docs/adr/0013-suspect-loads.md).
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/model_config.h"
#include "worker/supervisor.h"

namespace gradus::serving {

class Model;

class Workers {
 public:
  /// @param options of each worker; the device's name is filled in
  Workers(worker::Supervisor::Options options, const Clock& clock);
  ~Workers();

  /// `gpu:1` for a level with a GPU provider, `cpu:1` for any other; one for each of its
  /// device_ids, or the first device alone.
  static std::vector<std::string> devices_of(const config::LevelConfig& level);

  /// `fashion version 1 level 0`
  static std::string name_of(const Model& model, const config::LevelConfig& level);

  /// Loads an isolated level in the device's worker, or in its own there. Any thread; blocks. What
  /// it returns fails once this object is gone.
  /// @param level name_of()
  /// @param target of one run
  Result<runtime::Loaded> load(const std::string& device, const std::string& level,
                               const runtime::LoadSpec& spec, Duration target,
                               worker::LevelHooks hooks);
  /// A worker was lost while the level was loaded or warmed up in it: its later loads, on any
  /// device, meet a worker of its own. Any thread; load() does it by itself.
  void suspect(const std::string& level);

  /// The level's own, else the device's; nothing: none was ever wanted for the device.
  std::optional<worker::WorkerStatus> of(const std::string& device, const std::string& level) const;
  std::vector<worker::WorkerStatus> all() const;  // `gpu:0`, `gpu:0 for fashion version 1 level 0`

 private:
  worker::Supervisor& at(const std::string& place, bool alone) REQUIRES(mutex_);
  void move_out(const std::string& device, const std::string& level, worker::Seat seat);

  const worker::Supervisor::Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::set<std::string> suspects_ GUARDED_BY(mutex_);  // levels
  std::map<std::string, std::unique_ptr<worker::Supervisor>> supervisors_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
