// When a worker is of no use, and when a dead one is started again. Pure: times and chance come in
// as data.
#pragma once
#include <cstddef>
#include <deque>

#include "base/clock.h"

namespace gradus::worker {

struct RestartPolicy {
  Duration first = std::chrono::milliseconds(100);  // wait before the first restart, then doubled
  Duration cap = std::chrono::seconds(30);
  double jitter = 0.25;         // each wait is off by up to this share of it, either way
  std::size_t loop_deaths = 5;  // so many deaths …
  Duration loop_window = std::chrono::seconds(60);  // … within this are a crash loop …
  Duration loop_pause = std::chrono::seconds(60);   // … after which the wait is at least this
  int failed_runs = 10;                             // so many in a row, of whatever model …
  Duration failed_for = std::chrono::seconds(5);    // … over so long: it may be of no use
};

/// A worker's runs, of whatever model, that failed since one last succeeded.
struct FailedRuns {
  int in_a_row = 0;
  TimePoint first{};
  TimePoint last{};
};

/// A run ended, and not by the request's own fault.
void note_run(FailedRuns& failed, bool ok, TimePoint at);

bool may_be_useless(const FailedRuns& failed, const RestartPolicy& policy);

struct RestartState {
  int in_a_row = 0;              // deaths since a probe last succeeded
  std::deque<TimePoint> deaths;  // in the window, oldest first
};

struct Restart {
  Duration wait{};
  bool crash_loop = false;
};

/// A worker died, or did not come up. @param chance in [0, 1)
Restart after_death(RestartState& state, const RestartPolicy& policy, TimePoint at, double chance);

/// The wait before what failed so often in a row is tried again, without regard to crash loops.
/// @param failures >= 1; @param chance in [0, 1)
Duration backoff(const RestartPolicy& policy, int failures, double chance);

/// A run of a restarted worker succeeded: the next death waits shortly again.
void after_probe(RestartState& state);

}  // namespace gradus::worker
