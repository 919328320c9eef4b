// A call's wish not to be answered any more, which may come before the engine has the request.
#pragma once
#include <utility>

#include "base/mutex.h"
#include "serving/request.h"

namespace gradus::api {

/// Any thread. It outlives neither engine nor call: both hold it.
class Cancellation {
 public:
  /// What to cancel; at once if that was asked for already.
  void hold(serving::Ticket ticket) {
    {
      const MutexLock lock(mutex_);
      ticket_ = ticket;
      if (!wanted_) return;
    }
    cancel(ticket);
  }

  void cancel() {
    serving::Ticket ticket;
    {
      const MutexLock lock(mutex_);
      wanted_ = true;
      ticket = ticket_;
    }
    cancel(ticket);
  }

 private:
  static void cancel(const serving::Ticket& ticket) {
    if (const auto request = ticket.lock()) request->cancel();
  }

  Mutex mutex_;
  serving::Ticket ticket_ GUARDED_BY(mutex_);
  bool wanted_ GUARDED_BY(mutex_) = false;
};

}  // namespace gradus::api
