// Counts a model's requests on all threads, for one that asks for their rate.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "ladder/arrival_rate.h"

namespace gradus::serving {

class ArrivalRate {
 public:
  /// A request came, whatever becomes of it. Any thread.
  void note() { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Requests a second, as ladder::ArrivalRate. One thread, about every 200 ms.
  double update(TimePoint now) { return rate_.update(count_.load(std::memory_order_relaxed), now); }

 private:
  std::atomic<std::uint64_t> count_{0};
  ladder::ArrivalRate rate_;
};

}  // namespace gradus::serving
