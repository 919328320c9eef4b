// One try of a request on one level: it waits in that level's queue, then runs there, alone or with
// others.
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "metrics/batch_counts.h"
#include "serving/level_queue.h"
#include "serving/model.h"
#include "serving/request_check.h"
#include "serving/shared_run.h"

namespace gradus::serving {

class InFlight;

class Attempt final : public Waiting {
 public:
  explicit Attempt(InFlight& request) : request_(request) {}

  void evicted(const char* why) override;

  // Of whoever runs it.
  const BoundRequest& bound() const { return bound_; }
  /// No better level may answer.
  bool asked_for() const { return asked_for_; }
  /// False: nobody waits for it any more, and it is not to be run.
  /// @param run what it leaves when its request is answered otherwise; null: it cannot be ended
  bool begin(TimePoint at, std::shared_ptr<SharedRun> run);
  void answer(std::vector<Tensor> outputs, const metrics::RunTimes& run);
  /// kInvalid: the level cannot take the request, a worse one may. kCancelled: it was ended.
  void failed(const Error& error);

 private:
  friend class InFlight;

  InFlight& request_;
  BoundRequest bound_;  // set before each push, as what it inherits
  bool asked_for_ = false;
  // Under the request's lock.
  LevelSlot* slot_ = nullptr;  // the level; null: not in use
  bool hedge_ = false;         // beside another one that ran
  TimePoint pushed_at_{};
  std::optional<TimePoint> begun_;
  std::shared_ptr<SharedRun> run_;
};

}  // namespace gradus::serving
