#include "serving/deadline_timer.h"

#include <pthread.h>

#include <utility>

namespace gradus::serving {

DeadlineTimer::DeadlineTimer(const Clock& clock) : clock_(clock), thread_([this] { watch(); }) {
  pthread_setname_np(thread_.native_handle(), "deadlines");
}

DeadlineTimer::~DeadlineTimer() { stop(); }

void DeadlineTimer::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // A waiter that dies here may cancel its ticket: not in the map that is just being destroyed.
  std::map<Ticket, std::shared_ptr<Waiter>> let_go;
  {
    const MutexLock lock(mutex_);
    let_go.swap(waiting_);
  }
  let_go.clear();
}

DeadlineTimer::Ticket DeadlineTimer::add(TimePoint at, std::shared_ptr<Waiter> waiter) {
  Ticket ticket{at, 0};
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return ticket;
    ticket.number = next_number_++;
    waiting_.emplace_hint(waiting_.end(), ticket, std::move(waiter));
    wake = at < wakes_at_;
    if (wake) wakes_at_ = at;
  }
  if (wake) changed_.notify_one();
  return ticket;
}

void DeadlineTimer::cancel(const Ticket& ticket) {
  std::shared_ptr<Waiter> let_go;  // outlives the lock
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  let_go = std::move(found->second);
  waiting_.erase(found);
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
        const Duration left = first->first.at - clock_.now();
        if (left <= Duration::zero()) {
          due = std::move(first->second);
          waiting_.erase(first);
          break;
        }
        // Not woken when that ticket is cancelled: most are, long before their deadline.
        wakes_at_ = first->first.at;
        changed_.wait_for(mutex_, left);
      }
    }
    due->due();
  }
}

}  // namespace gradus::serving
