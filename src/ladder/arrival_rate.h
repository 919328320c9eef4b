// How many requests a second come to a model, of late: what levels are predicted for.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace gradus::ladder {

class ArrivalRate {
 public:
  static constexpr Duration kLate =
      std::chrono::seconds(1);  // what is older counts half, and so on

  /// Requests a second. About every 200 ms; the first call only begins the count.
  /// @param count of all requests that ever came
  double update(std::uint64_t count, TimePoint now) {
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
  std::uint64_t counted_ = 0;
  TimePoint updated_at_{};
  double rate_ = 0;
};

}  // namespace gradus::ladder
