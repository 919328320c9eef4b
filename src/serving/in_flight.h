// One request on its way down the ladder: it waits for a lane, runs on a level, and on failure goes
// on to the next one, until it is answered once, by a level or by its deadline.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ladder/route.h"
#include "serving/deadline_timer.h"
#include "serving/model.h"
#include "serving/request.h"
#include "serving/request_check.h"

namespace gradus::serving {

class InFlight final : public DeadlineTimer::Waiter, public std::enable_shared_from_this<InFlight> {
 public:
  /// Takes over the request; `done` is called exactly once, from any thread, possibly before start
  /// returns.
  static void start(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                    DeadlineTimer& timer);

  InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
           DeadlineTimer& timer);
  /// Answers kUnavailable if nothing else did: the lane it waited on was stopped.
  ~InFlight() override;

  void expire() override;

 private:
  void go_on();  // to the next level of the route that takes the request
  bool queue_on(LevelSlot& slot);
  void run_on(LevelSlot& slot);  // on the lane's thread
  void answer(const LevelSlot& slot, std::vector<Tensor> tensors, Duration run);
  void give_up();  // no level is left
  void refuse(const Error& error);
  void note(const LevelSlot& slot, const std::string& what);
  void finish(Result<Response> result);
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  const std::shared_ptr<Model> model_;
  const Request request_;
  Done done_;
  const Clock& clock_;
  DeadlineTimer& timer_;
  const TimePoint deadline_;
  DeadlineTimer::Ticket ticket_;
  std::atomic<bool> finished_{false};

  // Owned by whoever holds the request at the moment: the caller, then one lane after the other.
  ladder::Route route_;
  BoundRequest bound_;       // to the level that it waits for or runs on
  std::size_t next_ = 0;     // in route_
  bool waited_ = false;      // on a lane already
  bool overloaded_ = false;  // a lane was full
  TimePoint queued_at_{};
  Duration queue_{};
  std::string tried_;    // `level 0 'gpu': why; level 1 …`
  std::string refusal_;  // what the best level that refused the request has against it
};

}  // namespace gradus::serving
