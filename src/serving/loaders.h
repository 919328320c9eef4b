// The threads that bring levels up: as many as CPUs for CPU levels, the smallest files first, and
// few for GPU levels, which take turns, and try again, now and then, those that could not be
// loaded.
#pragma once
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "serving/level_loader.h"
#include "serving/model.h"

namespace gradus::serving {

class Loaders {
 public:
  /// @param with copied; what it refers to must outlive this object
  /// @param settle called for a model each time that one of its levels has come up or failed, from
  ///   a thread of these
  Loaders(int cpus, Loading with, std::function<void(const std::shared_ptr<Model>&)> settle);
  ~Loaders();

  /// Any thread; returns at once. A level's model lives until the level is loaded, or stop().
  void bring_up(const std::vector<std::shared_ptr<Model>>& models);

  /// What waits of models that nobody finds any more is not loaded. Any thread.
  void drop_left();

  /// Waits for loads that are under way; all others never come. Once.
  void stop();

 private:
  struct Load {
    std::shared_ptr<Model> model;
    LevelSlot* slot = nullptr;
  };
  struct Late {
    std::weak_ptr<Model> model;
    LevelSlot* slot;
  };

  void work(bool on_gpu);
  Load take(std::vector<Load>& loads) REQUIRES(mutex_);
  TimePoint next_gpu_load() const REQUIRES(mutex_);
  void load(const Load& next);
  bool may_come_late(const Model& model, const LevelSlot& slot) const;
  void retry_late();

  const Loading with_;
  const std::function<void(const std::shared_ptr<Model>&)> settle_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Load> cpu_loads_ GUARDED_BY(mutex_);  // taken from the back, quickest last
  std::vector<Load> gpu_loads_ GUARDED_BY(mutex_);
  std::vector<TimePoint> gpu_begun_ GUARDED_BY(mutex_);  // of those under way
  std::vector<Late> late_ GUARDED_BY(mutex_);            // isolated ones that lack a device
  Duration retry_wait_ GUARDED_BY(mutex_);
  TimePoint retry_at_ GUARDED_BY(mutex_){};
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace gradus::serving
