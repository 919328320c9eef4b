// One request on its way down the ladder: it waits for a level, runs there, alone or with others,
// and on failure goes on to the next one, until it is answered once, by a level or by its deadline.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ladder/route.h"
#include "serving/deadline_timer.h"
#include "serving/level_queue.h"
#include "serving/model.h"
#include "serving/request.h"
#include "serving/request_check.h"

namespace gradus::serving {

class InFlight final : public DeadlineTimer::Waiter,
                       public Waiting,
                       public std::enable_shared_from_this<InFlight> {
 public:
  /// Takes over the request, whose tier is settled; `done` is called exactly once, from any thread,
  /// possibly before start returns.
  static void start(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                    DeadlineTimer& timer);

  InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
           DeadlineTimer& timer);
  /// Answers kUnavailable if nothing else did: the lane it waited on was stopped.
  ~InFlight() override;

  void expire() override;
  void evicted(const char* why) override;

  // Of whoever runs it.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  const BoundRequest& bound() const { return bound_; }
  void begin(TimePoint at);
  void answer(const LevelSlot& slot, std::vector<Tensor> outputs, Duration run);
  /// Goes on to the next level. kInvalid: the level cannot take the request, a worse one may.
  void failed(const LevelSlot& slot, const Error& error);

 private:
  void plan();
  void go_on();  // to the next level of the route that takes the request
  bool try_levels(std::size_t from, LevelQueue::Admission admission);
  bool queue_on(LevelSlot& slot, LevelQueue::Admission admission);
  bool may_run_on(const LevelSlot& slot) const;
  void give_up();  // no level is left
  void refuse(const Error& error);
  void note(const LevelSlot& slot, const std::string& what);
  void finish(Result<Response> result);

  const std::shared_ptr<Model> model_;
  const Request request_;
  Done done_;
  const Clock& clock_;
  DeadlineTimer& timer_;
  DeadlineTimer::Ticket ticket_;
  std::atomic<bool> finished_{false};
  std::atomic<LevelQueue*> waits_in_{nullptr};  // the latest queue it was pushed to

  // Owned by whoever holds the request at the moment: the caller, then one lane after the other.
  ladder::Route route_;
  BoundRequest bound_;       // to the level that it waits for or runs on
  std::size_t next_ = 0;     // in route_
  int lost_workers_ = 0;     // that had it when they were lost
  bool ran_ = false;         // on a level already
  bool overloaded_ = false;  // a level would have taken it, but for want of room or time
  Duration queue_{};
  std::string tried_;    // `level 0 'gpu': why; level 1 …`
  std::string refusal_;  // what the best level that refused the request has against it
};

}  // namespace gradus::serving
