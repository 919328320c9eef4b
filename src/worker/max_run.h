// How long a run may take before its worker is taken for hung. Pure.
#pragma once
#include <cstdint>
#include <map>

#include "base/clock.h"

namespace gradus::worker {

/// 60 s for the first run of a shape, which may compile for long; then the greatest of ten times
/// the level's target, ten times the slowest warm-up run of that shape, and 1 s.
/// @param runs completed with this shape so far; @param slowest of its warm-up runs
Duration max_run(Duration target, int runs, Duration slowest);

/// What each shape's warm-up runs took: the second to the fourth. Not for several threads at once.
class ShapeTimes {
 public:
  struct Times {
    int runs = 0;
    Duration slowest{};
  };
  Times of(std::uint64_t shape) const;
  void add(std::uint64_t shape, Duration run);

 private:
  std::map<std::uint64_t, Times> times_;  // of the shapes seen first, some thousand
};

}  // namespace gradus::worker
