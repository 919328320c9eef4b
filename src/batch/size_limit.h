// How large a batch may be at present: as large as configured, less after the device found no
// memory for one, and more again, step by step, as full ones go well. Where a level asks for it, a
// run over its p99 target halves the limit too: additive increase, multiplicative decrease (D. Chiu
// and R. Jain, Analysis of the Increase and Decrease Algorithms for Congestion Avoidance, 1989).
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace gradus::batch {

class SizeLimit {
 public:
  static constexpr std::uint32_t kGoodRuns = 50;  // full ones, before it grows by one

  /// @param most samples, >= 1
  /// @param target of a run's time; nothing: time is no reason to shrink
  explicit SizeLimit(std::uint32_t most, std::optional<Duration> target = std::nullopt)
      : most_(most), target_(target), now_(most) {}

  std::uint32_t now() const { return now_; }

  /// A run of so many samples found no memory: half of that, or of the limit, is the limit.
  void out_of_memory(std::uint32_t samples) { halve(samples); }
  void succeeded(std::uint32_t samples, Duration run) {
    if (target_ && run > *target_) return halve(samples);
    if (now_ == most_ || samples < now_ || ++good_ < kGoodRuns) return;
    ++now_;
    good_ = 0;
  }

 private:
  void halve(std::uint32_t samples) {
    now_ = std::max<std::uint32_t>(1, std::min(now_, samples) / 2);
    good_ = 0;
  }

  std::uint32_t most_;
  std::optional<Duration> target_;
  std::uint32_t now_;
  std::uint32_t good_ = 0;
};

}  // namespace gradus::batch
