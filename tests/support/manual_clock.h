// Time that moves only when a test says so.
#pragma once
#include <atomic>

#include "base/clock.h"

namespace gradus::support {

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(now_.load())); }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

}  // namespace gradus::support
