// How large a batch may be at present: as large as configured, less after the device found no
// memory for one, and more again, step by step, as full ones go well.
#pragma once
#include <algorithm>
#include <cstdint>

namespace gradus::batch {

class SizeLimit {
 public:
  static constexpr std::uint32_t kGoodRuns = 50;  // full ones, before it grows by one

  /// @param most samples, >= 1
  explicit SizeLimit(std::uint32_t most) : most_(most), now_(most) {}

  std::uint32_t now() const { return now_; }

  /// A run of so many samples found no memory: half of that is the limit.
  void out_of_memory(std::uint32_t samples) {
    now_ = std::max<std::uint32_t>(1, std::min(now_, samples / 2));
    good_ = 0;
  }
  void succeeded(std::uint32_t samples) {
    if (now_ == most_ || samples < now_ || ++good_ < kGoodRuns) return;
    ++now_;
    good_ = 0;
  }

 private:
  std::uint32_t most_;
  std::uint32_t now_;
  std::uint32_t good_ = 0;
};

}  // namespace gradus::batch
