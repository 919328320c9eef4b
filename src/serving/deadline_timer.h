// Calls back at a time that a request asked for: its deadline, wherever it is then (waiting,
// running, or between two levels), or the moment to look whether another level should start. One
// thread for all requests.
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
  /// `due` is called on the timer's thread, under no lock.
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void due() = 0;
  };

  struct Ticket {
    TimePoint at{};
    std::uint64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };

  explicit DeadlineTimer(const Clock& clock);
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  /// Nothing is due any more, and what waits is let go: from then on add() and cancel() do nothing.
  /// Not on the timer's thread.
  void stop();

  /// Any thread. Keeps the waiter alive until it is due or its ticket is cancelled.
  Ticket add(TimePoint at, std::shared_ptr<Waiter> waiter);

  /// Does nothing when the ticket was due already.
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
