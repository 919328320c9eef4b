// Keeps ladders moving without traffic: tells them the time and the load's outlook, and tries with
// small real inferences the levels about which something depends on how they do, so that the way
// back up is proven first. Looks at how models and workers stand, and tells what began or ended.
#pragma once
#include <list>
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

  /// Any thread, before the model that it takes the place of leaves. Until the model ends; what
  /// lasts of it then goes on with the next one of that name and version, or is over.
  void watch(const std::shared_ptr<Model>& model);
  void start();

 private:
  struct Watched {
    std::weak_ptr<Model> model;
    std::vector<TimePoint> next;  // of each level: no probe before
    ModelWatch watch;
    bool waits;  // an older one of that name and version is still there, which is looked at
    bool goes = false;
  };

  void take_new();
  void round();
  void part(std::list<Watched>::iterator from);
  void probe_levels(const std::shared_ptr<Model>& model, std::vector<TimePoint>& next);
  void tell(std::vector<Event> events) const;

  const Clock& clock_;
  const Workers* const workers_;
  const Observer observer_;
  std::list<Watched> watched_;  // the prober's thread only
  WorkersWatch workers_watch_;  // the prober's thread only
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Model>> new_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace gradus::serving
