#include "serving/deadline_timer.h"

#include <pthread.h>

#include <utility>

namespace gradus::serving {

DeadlineTimer::DeadlineTimer(const Clock& clock) : clock_(clock), thread_([this] { watch(); }) {
  pthread_setname_np(thread_.native_handle(), "deadlines");
}

DeadlineTimer::~DeadlineTimer() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // A waiter that dies here may cancel its ticket: not in the map that is just being destroyed.
  std::map<Ticket, std::shared_ptr<Waiter>> let_go;
  {
    const MutexLock lock(mutex_);
    let_go.swap(waiting_);
  }
  let_go.clear();
}

DeadlineTimer::Ticket DeadlineTimer::add(TimePoint deadline, std::shared_ptr<Waiter> waiter) {
  Ticket ticket{deadline, 0};
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    ticket.number = next_number_++;
    waiting_.emplace_hint(waiting_.end(), ticket, std::move(waiter));
    wake = deadline < wakes_at_;
    if (wake) wakes_at_ = deadline;
  }
  if (wake) changed_.notify_one();
  return ticket;
}

void DeadlineTimer::cancel(const Ticket& ticket) {
  std::shared_ptr<Waiter> let_go;  // outlives the lock
  const MutexLock lock(mutex_);
  const auto at = waiting_.find(ticket);
  if (at == waiting_.end()) return;
  let_go = std::move(at->second);
  waiting_.erase(at);
}

void DeadlineTimer::watch() {
  for (;;) {
    std::shared_ptr<Waiter> due;
    {
      const MutexLock lock(mutex_);
      for (;;) {
        if (stopping_) return;
        if (waiting_.empty()) {
          wakes_at_ = TimePoint::max();
          changed_.wait(mutex_);
          continue;
        }
        const auto first = waiting_.begin();
        const Duration left = first->first.deadline - clock_.now();
        if (left <= Duration::zero()) {
          due = std::move(first->second);
          waiting_.erase(first);
          break;
        }
        // Not woken when that ticket is cancelled: most are, long before their deadline.
        wakes_at_ = first->first.deadline;
        changed_.wait_for(mutex_, left);
      }
    }
    due->expire();
  }
}

}  // namespace gradus::serving
