// The times of many requests, summed up as the benchmark shows them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/clock.h"

namespace gradus::bench {

/// The time that a share of the requests took at most, by the nearest rank; 0 for none.
/// @param share in (0, 1]: 0.5 is the median
/// @param times reordered
inline double percentile_us(std::vector<Duration>& times, double share) {
  if (times.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(std::lround(share * static_cast<double>(times.size() - 1)));
  const auto nth = times.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(times.begin(), nth, times.end());
  return std::chrono::duration<double, std::micro>(*nth).count();
}

}  // namespace gradus::bench
