// How long a run may take before its worker is taken for hung. Pure.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "base/clock.h"

namespace gradus::worker {

/// The greatest of ten times the level's target, ten times the slowest run of the kind, and 1 s.
/// @param slowest warm-up run of the shape; zero: not known yet
Duration max_run(Duration target, Duration slowest);
/// The same for the first run of a shape, which may compile for long: 60 s, and less once it is
/// known how long first runs take. Else a batch of a new size that hangs would keep everybody
/// waiting beyond their deadlines.
/// @param slowest first run of any shape so far; nothing: there was none
Duration max_first_run(Duration target, std::optional<Duration> slowest);

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
