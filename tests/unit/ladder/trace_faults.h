// What a random fault trace says of one level: how it does at any time, whatever the ladder thinks.
#pragma once
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace gradus::ladder {

/// SplitMix64: the same numbers everywhere, so that a seed is a trace.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 … n - 1.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }
  Duration between(Duration least, Duration most);
  /// Times with this mean, most of them shorter.
  Duration about(Duration mean);
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

enum class Mode {
  kGood,
  kSlow,          // answers, but takes more than two targets
  kProbesFail,    // answers requests, fails probes
  kRequestsFail,  // fails requests, answers probes
  kFails,         // fails both, at once
  kFlaky,         // fails every other run, more or less
  kHangs,         // fails after 10 s
  kGone,          // hard loss; comes back by itself
  kDead,          // hard loss; has to be loaded again
};

/// Requests get an answer, sooner or later.
bool answers(Mode mode);

/// Intervals of modes without gaps.
class LevelTrace {
 public:
  struct Interval {
    TimePoint from;
    Mode mode;
  };

  LevelTrace(Random& random, TimePoint from, TimePoint to);

  Mode at(TimePoint time) const;
  /// The end of the interval in which `time` lies.
  TimePoint end_of(TimePoint time) const;
  /// From now on `mode` for so long, then as before. For an adversary that waits for its moment.
  void force(TimePoint now, Mode mode, Duration for_so_long);
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  std::size_t find(TimePoint time) const;

  std::vector<Interval> intervals_;
};

}  // namespace gradus::ladder
