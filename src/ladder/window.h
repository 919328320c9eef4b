// The last executions of one level, with every sum that the policy asks for kept as they come and
// go.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "config/policy_config.h"

namespace gradus::ladder {

class Window {
 public:
  struct Run {
    TimePoint ended;
    Duration run;    // in the runtime
    Duration queue;  // waiting before it, kept apart
    bool ok = true;
    bool probe = false;   // no outcome: it only tells how long the level takes
    bool steady = false;  // may show slowness (warmth.h)
  };
  struct Counts {
    std::uint32_t outcomes = 0;     // executions of live traffic …
    std::uint32_t failures = 0;     // … of which so many failed
    std::uint32_t samples = 0;      // good, live and steady …
    std::uint32_t slow = 0;         // … of which so many took over `slow_factor` targets
    std::uint32_t timed = 0;        // good, probes too …
    std::uint32_t over_target = 0;  // … of which so many did not stay under the target
  };

  Window(const config::PolicyConfig& policy, Duration target);

  /// Amortised constant; allocates only until `window_runs` places exist. Runs come in order of
  /// completion.
  void add(const Run& run);
  /// Drops what ended longer than `window` before `now`.
  void expire(TimePoint now);
  void clear();

  const Counts& counts() const { return counts_; }
  Duration slow_limit() const { return slow_limit_; }
  /// The p99 (nearest rank) of the timed runs is under the target; false without any. Constant.
  bool p99_under_target() const;
  /// Nearest rank, of the timed runs; nothing without any. Linear: not for every request.
  std::optional<Duration> p99_run() const;
  std::optional<Duration> p99_queue_and_run() const;

 private:
  void count(const Run& run, std::uint32_t by);
  void drop_oldest();
  void grow();
  template <class Value>
  std::optional<Duration> p99_of(Value value) const;

  std::size_t capacity_;
  Duration span_;
  Duration target_;
  Duration slow_limit_;
  std::vector<Run> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  Counts counts_;
};

}  // namespace gradus::ladder
