// Keeps ladders moving without traffic: tells them the time and the load's outlook, and tries with
// small real inferences the levels about which something depends on how they do, so that the way
// back up is proven first. Looks at how models and workers stand, and tells what began or ended.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "serving/model.h"
#include "serving/observer.h"
#include "serving/watch.h"
#include "serving/workers.h"

namespace gradus::serving {

class Prober {
 public:
  /// @param workers null: every level runs in this process
  /// @param observer may be empty
  Prober(const Clock& clock, const Workers* workers, Observer observer);
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

  struct Seen {
    std::shared_ptr<Model> model;
    ModelWatch watch;
  };

  void round();
  void tell_changes();
  void tell(std::vector<Event> events) const;

  const Clock& clock_;
  const Workers* const workers_;
  const Observer observer_;
  std::vector<Watched> watched_;  // the prober's thread only, once started
  std::vector<Seen> seen_;        // as watched_
  WorkersWatch workers_watch_;    // the prober's thread only
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace gradus::serving
