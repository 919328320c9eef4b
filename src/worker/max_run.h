// How long a run may take before its worker is taken for hung. Pure.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/clock.h"

namespace gradus::worker {

/// What each shape's first runs took in one worker. Not for several threads at once.
class ShapeTimes {
 public:
  struct Times {
    int runs = 0;
    Duration first{};
    Duration slowest{};  // of the warm-up runs, the second to the fourth; zero: there was none
  };
  Times of(std::uint64_t shape) const;
  void add(std::uint64_t shape, Duration run);

 private:
  std::map<std::uint64_t, Times> times_;  // of the shapes seen first, some thousand
};

/// The greatest of ten times the level's target, ten times the slowest warm-up run of the shape,
/// and 1 s; of its second run also four times the first.
Duration max_run(Duration target, const ShapeTimes::Times& times);

/// How long the first run of a shape in a worker may take, which may compile: 60 s, and less once
/// it is known how long first runs take. Else a batch of a new size that hangs would keep everybody
/// waiting beyond their deadlines. Of one level, in all of its workers; not for several threads at
/// once.
class FirstRuns {
 public:
  /// The greatest of ten times the target, ten times the slowest first run so far, and 1 s. For a
  /// shape that never ran well the slowest one counts by its share of bytes where it has more than
  /// any that did, and what is as large as one that was cut may take four times as long as that.
  /// @param bytes of the inputs
  Duration limit(Duration target, std::uint64_t shape, std::uint64_t bytes) const;
  void ended(std::uint64_t shape, std::uint64_t bytes, Duration run);
  /// Its worker was ended because it had not answered within `limit`.
  void cut(std::uint64_t shape, std::uint64_t bytes, Duration limit);

 private:
  struct Cut {
    std::uint64_t bytes;  // the fewest
    Duration limit;       // the longest
  };
  std::optional<Duration> slowest_;
  std::uint64_t most_bytes_ = 0;    // of a run that ended
  std::set<std::uint64_t> shapes_;  // that ran well in some worker; some thousand
  std::optional<Cut> cut_;          // until a new shape as large has run well
};

}  // namespace gradus::worker
