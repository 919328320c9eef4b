// How much of a level's time tier `batch` may use while it would otherwise idle: a purse that fills
// at the share's pace and from which each run is paid.
#pragma once
#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace gradus::serving {

class TierShare {
 public:
  static constexpr Duration kMost = std::chrono::seconds(1);  // saved up

  /// @param share 0: never, 1: always
  explicit TierShare(double share) : share_(share), purse_(kMost) {}

  bool may_run(TimePoint now) {
    if (share_ >= 1) return true;
    fill(now);
    return share_ > 0 && purse_ > Duration::zero();
  }
  void pay(Duration run, TimePoint now) {
    fill(now);
    purse_ -= run;
  }

 private:
  void fill(TimePoint now) {
    if (now <= filled_at_) return;
    const std::chrono::duration<double, std::nano> income = share_ * (now - filled_at_);
    purse_ = std::min(kMost, purse_ + std::chrono::duration_cast<Duration>(income));
    filled_at_ = now;
  }

  double share_;
  Duration purse_;
  TimePoint filled_at_{};
};

}  // namespace gradus::serving
