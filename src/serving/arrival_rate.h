// How many requests a second come to a model, of late: what levels are predicted for.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace gradus::serving {

class ArrivalRate {
 public:
  static constexpr Duration kLate =
      std::chrono::seconds(1);  // what is older counts half, and so on

  /// A request came, whatever becomes of it. Any thread.
  void note() { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Requests a second. One thread, about every 200 ms; the first call only begins the count.
  double update(TimePoint now) {
    const std::uint64_t count = count_.load(std::memory_order_relaxed);
    const Duration passed = now - updated_at_;
    if (updated_at_ != TimePoint{} && passed > Duration::zero()) {
      const double rate = 1000 * static_cast<double>(count - counted_) / to_ms(passed);
      const double kept = std::exp2(-to_ms(passed) / to_ms(kLate));
      rate_ = kept * rate_ + (1 - kept) * rate;
    }
    counted_ = count;
    updated_at_ = now;
    return rate_;
  }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::uint64_t counted_ = 0;
  TimePoint updated_at_{};
  double rate_ = 0;
};

}  // namespace gradus::serving
