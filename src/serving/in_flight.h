// One request on its way down the ladder: an attempt on a level; on failure one on the next level;
// a second one beside the first where that would come too late (ladder/plan.h); until it is
// answered once, by a level, by its deadline, or by the client's leaving.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "ladder/route.h"
#include "serving/attempt.h"
#include "serving/deadline_timer.h"
#include "serving/level_queue.h"
#include "serving/model.h"
#include "serving/request.h"
#include "serving/time_limits.h"

namespace gradus::serving {

class InFlight final : public DeadlineTimer::Waiter,
                       public Cancellable,
                       public std::enable_shared_from_this<InFlight> {
 public:
  /// Takes over the request, whose tier is settled; `done` is called exactly once, from any thread,
  /// possibly before start returns.
  static Ticket start(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                      DeadlineTimer& timer);

  InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
           DeadlineTimer& timer);
  /// Answers kUnavailable if nothing else did: the lane it waited on was stopped.
  ~InFlight() override;

  void due() override;
  void cancel() override;

 private:
  friend class Attempt;
  using Admission = LevelQueue::Admission;
  enum class Placed { kYes, kRefused };

  // Of attempts.
  void evicted(Attempt& attempt, const char* why);
  bool begin(Attempt& attempt, TimePoint at, std::shared_ptr<SharedRun> run);
  void answer(Attempt& attempt, std::vector<Tensor> outputs, const metrics::RunTimes& run);
  void failed(Attempt& attempt, const Error& error);

  // One thread at a time goes on; a failure meanwhile makes it look again.
  bool take_turn();
  bool end_turn();
  void go_on();
  void place_next();
  void hedge(TimePoint now);
  std::optional<TimePoint> hedge_from(Attempt& from, Attempt& into, TimePoint now);
  void start_hedge(Attempt& from, Attempt& into, std::size_t place, TimePoint now);
  bool try_levels(Attempt& attempt, Admission admission);
  bool bind(Attempt& attempt, LevelSlot& slot, std::size_t place);
  Placed place_on(Attempt& attempt, LevelSlot& slot, std::size_t place, Admission admission,
                  bool hedge);
  void plan();
  bool held_by_better_tiers(const LevelSlot& slot) const;
  /// The level at that place of the route, if it is loaded and was not tried.
  LevelSlot* untried(std::size_t place) const REQUIRES(mutex_);
  bool may_go_to(const LevelSlot& slot, const Attempt& into) const REQUIRES(mutex_);
  bool may_be_hedged(const LevelSlot& slot) const REQUIRES(mutex_);
  Attempt& other(const Attempt& attempt) {
    return &attempt == &attempts_[0] ? attempts_[1] : attempts_[0];
  }
  const Attempt& other(const Attempt& attempt) const {
    return &attempt == &attempts_[0] ? attempts_[1] : attempts_[0];
  }
  void free(Attempt& attempt) REQUIRES(mutex_);
  void wake_at(TimePoint at);

  void expire();
  void give_up();  // no level is left
  void refuse(const Error& error) REQUIRES(mutex_);
  void note(const LevelSlot* slot, const std::string& what) REQUIRES(mutex_);
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  /// @param winner whose answer it is; null: of none
  void finish(Result<Response> result, const Attempt* winner = nullptr);

  const std::shared_ptr<Model> model_;
  const Request request_;
  Done done_;
  const Clock& clock_;
  DeadlineTimer& timer_;
  const config::Tier tier_;
  const TimeLimits limits_;
  const TimePoint deadline_ = limits_.deadline;
  std::atomic<bool> finished_{false};
  ladder::Route route_;

  mutable Mutex mutex_;
  std::array<Attempt, 2> attempts_;  // in use or not
  DeadlineTimer::Ticket ticket_ GUARDED_BY(mutex_);
  std::uint8_t tried_levels_ GUARDED_BY(mutex_) = 0;  // by place in the route
  bool moving_ GUARDED_BY(mutex_) = false;            // a thread goes on …
  bool look_again_ GUARDED_BY(mutex_) = false;        // … and is to do so once more
  bool overloaded_ GUARDED_BY(mutex_) = false;  // a level refused it for its queue or its estimate
  bool bounded_ GUARDED_BY(mutex_) = false;     // … or for how many of its priority wait there
  bool ran_ GUARDED_BY(mutex_) = false;
  bool moved_ GUARDED_BY(mutex_) = false;    // it gave up a place in a queue to wait elsewhere
  int lost_workers_ GUARDED_BY(mutex_) = 0;  // while it ran there
  Duration queue_ GUARDED_BY(mutex_){};      // waiting, all attempts
  std::string tried_ GUARDED_BY(mutex_);     // what came of the levels, for the error
  std::string refusal_ GUARDED_BY(mutex_);   // why a level could not take the request
};

}  // namespace gradus::serving
