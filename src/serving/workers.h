// The worker processes of this server, and which levels live in which: one a device, and one more
// for each level whose load has ended one, so that it ends none of the others' again
// (docs/adr/0013-suspect-loads.md).
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/model_config.h"
#include "worker/supervisor.h"

namespace gradus::serving {

class Model;

/// A level of one version of a model.
struct LevelName {
  std::string model;
  std::string version;
  int level = 0;
};

class Workers {
 public:
  /// @param options of each worker; the device's name is filled in
  Workers(worker::Supervisor::Options options, const Clock& clock);
  ~Workers();

  /// `gpu:1` for a level with a GPU provider, `cpu:1` for any other; one for each of its
  /// device_ids, or the first device alone.
  static std::vector<std::string> devices_of(const config::LevelConfig& level);

  static LevelName name_of(const Model& model, const config::LevelConfig& level);

  /// Loads an isolated level in the device's worker, or in its own there. Any thread; blocks. What
  /// it returns fails once this object is gone.
  /// @param owner whoever holds what is returned, and may load it again
  /// @param target of one run
  Result<runtime::Loaded> load(const std::string& device, const LevelName& level,
                               const std::shared_ptr<const void>& owner,
                               const runtime::LoadSpec& spec, Duration target,
                               worker::LevelHooks hooks);
  /// A worker was lost while the level was loaded or warmed up in it: its later loads, of any
  /// version and on any device, meet a worker of its own. Any thread; load() does it by itself.
  void suspect(const LevelName& level);
  bool is_suspect(const LevelName& level) const;  // any thread
  /// Ends workers of levels whose owners are all gone. Any thread; blocks.
  void end_unowned();

  /// The level's own, else the device's; nothing: none was ever wanted for the device.
  std::optional<worker::WorkerStatus> of(const std::string& device, const LevelName& level) const;
  std::vector<worker::WorkerStatus> all() const;  // `gpu:0`, `gpu:0 for fashion version 1 level 0`

 private:
  struct Place {
    std::unique_ptr<worker::Supervisor> supervisor;
    std::set<std::weak_ptr<const void>, std::owner_less<>> owners;  // of a level's own
  };

  worker::Supervisor& at(const std::string& place, bool alone) REQUIRES(mutex_);
  worker::Supervisor& own(const std::string& device, const LevelName& level,
                          const std::shared_ptr<const void>& owner) REQUIRES(mutex_);
  void move_out(const std::string& device, const LevelName& level,
                const std::weak_ptr<const void>& owner, worker::Seat seat);

  const worker::Supervisor::Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::set<std::pair<std::string, int>> suspects_ GUARDED_BY(mutex_);  // levels of models
  std::map<std::string, Place> places_ GUARDED_BY(mutex_);
};

}  // namespace gradus::serving
