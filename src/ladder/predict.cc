#include "ladder/predict.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

namespace gradus::ladder {
namespace {

constexpr double kBeyond = 0.01;        // share of requests beyond the p99
const double kLn100 = std::log(100.0);  // p99 of an exponential time, in means
constexpr int kHalvings = 60;

constexpr double kLeast = 1e-6;  // a varying part, of a mean: none at all divides by zero

constexpr Duration kBusyOver = std::chrono::seconds(2);  // how far back the use of a lane counts

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

struct Run {
  double mean, deviation, tail;  // s
};

Run run_of(const Estimate& e) {
  return {seconds(e.mean), seconds(e.deviation), seconds(std::max(e.tail, e.mean))};
}

/// A run with so many requests, in between the ones that are known.
Run run_with(const Load& load, double requests) {
  const auto above = std::find_if(load.runs.begin(), load.runs.end(), [&](const BatchRun& known) {
    return known.requests >= requests;
  });
  if (above == load.runs.begin()) return run_of(above->run);
  if (above == load.runs.end()) return run_of(load.runs.back().run);
  const BatchRun& below = *std::prev(above);
  const double share = (requests - below.requests) / (above->requests - below.requests);
  const Run a = run_of(below.run);
  const Run b = run_of(above->run);
  return {std::lerp(a.mean, b.mean, share), std::lerp(a.deviation, b.deviation, share),
          std::lerp(a.tail, b.tail, share)};
}

/// How many requests a run carries when each takes what came while the others ran.
double batch_that_fills(const Load& load) {
  double low = 1;
  double high = load.runs.back().requests;
  for (int i = 0; i < kHalvings; ++i) {
    const double batch = (low + high) / 2;
    const bool more_come = load.arrivals * run_with(load, batch).mean / load.instances > batch;
    (more_come ? low : high) = batch;
  }
  return low;
}

/// That every server is busy (Sakasegawa).
double chance_to_wait(double used, double servers) {
  return std::pow(used, std::sqrt(2 * (servers + 1)) - 1);
}

/// A constant, an exponential part, and, with a chance, an exponential wait.
struct Sojourn {
  double constant, varying, chance, wait;

  double share_beyond(double time) const {
    const double t = time - constant;
    if (t <= 0) return 1;
    const double own = std::exp(-t / varying);
    if (std::abs(wait - varying) < kLeast * wait) return own * (1 + chance * t / wait);
    return (1 - chance) * own +
           chance * (wait * std::exp(-t / wait) - varying * own) / (wait - varying);
  }
};

double p99_of(const Sojourn& sojourn) {
  double low = sojourn.constant;
  double high = sojourn.constant + 2 * kLn100 * (sojourn.varying + sojourn.wait);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (sojourn.share_beyond(middle) > kBeyond ? low : high) = middle;
  }
  return high;
}

Duration duration(double s) {
  const double ns = s * 1e9;
  return ns < static_cast<double>(kCannotCarry.count()) / 2 ? Duration(std::llround(ns))
                                                            : kCannotCarry;
}

}  // namespace

void Busy::ran(Duration run, TimePoint ended) {
  instances_ = at(ended) + seconds(run) / seconds(kBusyOver);
  fed_at_ = ended;
}

double Busy::at(TimePoint now) const {
  return instances_ * std::exp(-std::max(0.0, seconds(now - fed_at_) / seconds(kBusyOver)));
}

Estimate stretched(Estimate run, double instances, double others) {
  const double by = instances / std::max(instances / 10, instances - others);
  for (Duration* part : {&run.mean, &run.deviation, &run.tail}) {
    *part = std::chrono::duration_cast<Duration>(*part * by);
  }
  return run;
}

Duration predict_p99(const Load& load) {
  const double most = load.runs.back().requests;
  const double servers = load.instances;
  const Run full = run_of(load.runs.back().run);
  if (full.mean <= 0) return Duration::zero();
  const double used = load.arrivals * full.mean / (servers * most);
  if (used >= 1) return kCannotCarry;

  const Run own = run_with(load, batch_that_fills(load));
  const double variation = full.deviation / full.mean;
  const double wait = (1 / most + variation * variation) / 2 * full.mean / (servers * (1 - used));
  const double busy = chance_to_wait(std::min(1.0, load.arrivals * own.mean / servers), servers);
  const double under_way =
      busy > kBeyond ? own.mean * (1 - std::pow(kBeyond / busy, 1 / servers)) : 0;

  // The constant is less than nothing where a few runs take very long: the tail fits all the same.
  const double varying = (own.tail - own.mean) / (kLn100 - 1);
  const double settled = p99_of({.constant = own.mean - varying + (1 - 1 / most) * under_way,
                                 .varying = std::max(varying, kLeast * own.mean),
                                 .chance = chance_to_wait(used, servers),
                                 .wait = wait});
  const double worked_off = load.backlog * full.mean / (servers * most);
  return duration(std::max(settled, worked_off + own.tail));
}

}  // namespace gradus::ladder
