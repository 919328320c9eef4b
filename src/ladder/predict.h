// What a level's p99 would be, queueing included, if all the present load came to it.
//
// A level is a queue with `instances` servers that take up to B waiting requests into one run.
// Arrivals are taken as Poisson, so batches of B arrive with a squared variation of 1/B. By Allen
// and Cunneen's approximation, with Sakasegawa's exponent for the chance to wait, a request waits
// for full batches before it
//     with probability  P = rho ^ (sqrt(2 (c + 1)) - 1),  rho = rate x run(B) / (c B)
//     exponentially, mean  (1/B + v^2) / 2 x run(B) / (c (1 - rho)),  v = deviation / mean
// and, where runs carry more than one request, for a run under way to end, which is the first of c
// evenly random ones. Its own run has the batch size b that the load fills: b = rate x run(b) / c.
// A run is taken as a constant and an exponential part that fit its mean and tail; the p99 of the
// sum is found by bisection. What waits already is worked off first, if that takes longer.
// Sources: A. O. Allen, Probability, Statistics and Queueing Theory (1990), 5.3; H. Sakasegawa, An
// approximation formula Lq = a rho^b / (1 - rho), Ann. Inst. Statist. Math. 29 (1977).
#pragma once
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "ladder/estimates.h"
#include "ladder/events.h"

namespace gradus::ladder {

/// A run that carries so many requests.
struct BatchRun {
  std::uint32_t requests = 1;
  Estimate run;  // what Estimates::predict says of it
};

struct Load {
  double arrivals = 0;             // requests a second
  double backlog = 0;              // requests that wait already
  std::uint32_t instances = 1;     // that run side by side, at least 1
  std::span<const BatchRun> runs;  // at least one, ascending by requests, a full batch last; sizes
                                   // in between are interpolated
};

/// How many instances of a lane that it shares with others somebody has kept busy of late: what is
/// two seconds old counts a third.
class Busy {
 public:
  /// A run ended. Times ascend.
  void ran(Duration run, TimePoint ended);
  double at(TimePoint now) const;

 private:
  double instances_ = 0;
  TimePoint fed_at_{};
};

/// The same run on a lane where others keep so many of all instances busy; a tenth of the lane is
/// left to it at the least.
Estimate stretched(Estimate run, double instances, double others);

/// @return 0.65 to 1.45 of what happens, at 30 % to 90 % of the capacity; at less never under the
/// tail of a run; kCannotCarry if the load is the capacity or more. Zero if runs take no time. For
/// ticks rather than for requests: some microseconds.
Duration predict_p99(const Load& load);

}  // namespace gradus::ladder
