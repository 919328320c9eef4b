// Which levels one request tries, in which order.
#pragma once
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "ladder/state.h"

namespace gradus::ladder {

/// Numbers of levels, each at most once. A value without memory of its own.
class Route {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](std::size_t i) const { return levels_[i]; }
  const int* begin() const { return levels_.data(); }
  const int* end() const { return levels_.data() + size_; }

  /// Nothing speaks against the level at this place: its breaker is closed, its last probe good.
  bool proven(std::size_t i) const { return proven_[i]; }

  void append(int level, bool proven) {
    if (size_ == kMaxLevels) std::abort();  // a ladder has no more
    proven_[size_] = proven;
    levels_[size_++] = level;
  }

 private:
  std::array<int, kMaxLevels> levels_{};
  std::array<bool, kMaxLevels> proven_{};
  std::size_t size_ = 0;
};

/// The levels that a request accepts.
struct Accepted {
  int min_level = 0;                                // the best
  int max_level = std::numeric_limits<int>::max();  // the worst
};

/// Every ready level that the request accepts, in this order:
/// 0. the level of the canary, if this request is of its share;
/// 1. the current level and worse ones, breaker closed; in front the first of them whose breaker's
///    trial is due, which this request then is;
/// 2. better ones, best first, breaker closed and last probe good;
/// 3. what an open breaker or a bad probe put aside: better ones with a bad probe, then open ones,
/// open
///    longest first. So those cost nothing while others answer, and never refuse a request by
///    themselves.
/// Empty: no level that it accepts is ready. Changes the state only by claiming a trial or a
/// canary's share, and by noting that there is traffic. Constant.
Route route(State& state, Accepted accepted, TimePoint at);

}  // namespace gradus::ladder
