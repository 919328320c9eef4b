#include "batch/arrivals.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace gradus::batch {

// Moves the current window to the one that `now` lies in; nothing happened since the last call.
void Arrivals::roll(TimePoint now) {
  const auto windows = (now - began_) / window_;
  if (windows <= 0) return;
  most_before_ = windows == 1 ? most_ : in_hand_;
  most_ = in_hand_;
  began_ += windows * window_;
}

void Arrivals::entered(TimePoint now, std::uint32_t samples) {
  roll(now);
  in_hand_ += samples;
  most_ = std::max(most_, in_hand_);
}

void Arrivals::left(TimePoint now, std::uint32_t samples) {
  roll(now);
  if (samples > in_hand_) {
    std::fprintf(stderr, "batch arrivals: %u samples leave, %llu are in hand\n", samples,
                 static_cast<unsigned long long>(in_hand_));
    std::abort();
  }
  in_hand_ -= samples;
}

std::uint32_t Arrivals::expected(TimePoint now) {
  roll(now);
  const std::uint64_t expected = std::max(most_, most_before_) - in_hand_;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(expected, UINT32_MAX));
}

}  // namespace gradus::batch
