// Calls back when a request's deadline passes, wherever the request is then: waiting, running, or
// between two levels. One thread for all requests.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace gradus::serving {

class DeadlineTimer {
 public:
  /// What waits for its deadline; `expire` is called on the timer's thread, under no lock.
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void expire() = 0;
  };

  struct Ticket {
    TimePoint deadline{};
    std::uint64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };

  explicit DeadlineTimer(const Clock& clock);
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  /// Any thread. Keeps the waiter alive until it expires or its ticket is cancelled.
  Ticket add(TimePoint deadline, std::shared_ptr<Waiter> waiter);

  /// Does nothing when the ticket has expired already.
  void cancel(const Ticket& ticket);

 private:
  void watch();

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  TimePoint wakes_at_ GUARDED_BY(mutex_) = TimePoint::max();  // when the thread looks again
  std::uint64_t next_number_ GUARDED_BY(mutex_) = 0;
  std::map<Ticket, std::shared_ptr<Waiter>> waiting_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace gradus::serving
