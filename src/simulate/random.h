// Numbers by chance that are the same everywhere: a seed is a story (SplitMix64, public domain, by
// S. Vigna; Box and Muller's method for normal ones).
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/clock.h"

namespace gradus::simulate {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  bool chance(double share) { return uniform() < share; }
  /// Mean 1.
  double exponential() { return -std::log(uniform()); }
  /// Mean 0, deviation 1.
  double normal() {
    return std::sqrt(2 * exponential()) * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

/// Run times with a tail: log-normal, by mean and p99.
class RunTimes {
 public:
  static constexpr double kMostTail = 14;  // p99 in means; more has no log-normal

  /// @param p99 in [mean, kMostTail x mean]
  RunTimes(Duration mean, Duration p99) : mean_(static_cast<double>(mean.count())) {
    constexpr double kZ99 = 2.3263478740408408;  // 99 % of normal numbers are below
    const double tail = std::log(static_cast<double>(p99.count()) / mean_);
    sigma_ = kZ99 - std::sqrt(kZ99 * kZ99 - 2 * tail);
  }
  /// @param times the mean is so many times what it is
  Duration draw(Random& random, double times) const {
    const double spread = sigma_ > 0 ? std::exp(sigma_ * random.normal() - sigma_ * sigma_ / 2) : 1;
    return Duration(std::llround(mean_ * times * spread));
  }

 private:
  double mean_;  // ns
  double sigma_;
};

}  // namespace gradus::simulate
