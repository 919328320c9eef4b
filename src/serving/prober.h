// Keeps ladders moving without traffic: tells them the time and the load's outlook, and tries with
// small real inferences the levels about which something depends on how they do, so that the way
// back up is proven first.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "serving/model.h"

namespace gradus::serving {

class Prober {
 public:
  explicit Prober(const Clock& clock);
  ~Prober();

  /// Before start().
  void watch(const std::shared_ptr<Model>& model);
  void start();

 private:
  struct Watched {
    std::shared_ptr<Model> model;
    LevelSlot* slot;
    TimePoint next;  // no probe before
  };

  void round();

  const Clock& clock_;
  std::vector<Watched> watched_;  // the prober's thread only, once started
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace gradus::serving
