// Counts, and how many durations fell below which bound. Fixed bounds, so that adding is an index
// and two additions, and so that histograms of all levels and servers can be added up.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace gradus::metrics {

/// Only grows. Any thread.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Upper bounds of the buckets, inclusive, in nanoseconds: 1, 2, 5, 10, … from 10 us to 50 s. What
/// is longer falls into one more bucket.
inline constexpr auto kBounds = [] {
  std::array<std::uint64_t, 21> bounds{};
  std::uint64_t decade = 10'000;
  for (std::size_t i = 0; i < bounds.size(); i += 3, decade *= 10) {
    bounds[i] = decade;
    bounds[i + 1] = 2 * decade;
    bounds[i + 2] = 5 * decade;
  }
  return bounds;
}();

inline constexpr std::size_t kBuckets = kBounds.size() + 1;

/// The bucket of a duration. No two bounds have the same bit width, so one comparison is enough.
constexpr std::size_t bucket_of(std::uint64_t ns) {
  constexpr auto kFirst = [] {  // by bit width: the bucket of the least number of that width
    std::array<std::uint8_t, 65> first{};
    for (std::size_t width = 1; width < first.size(); ++width) {
      const std::uint64_t least = std::uint64_t{1} << (width - 1);
      while (first[width] < kBounds.size() && kBounds[first[width]] < least) ++first[width];
    }
    return first;
  }();
  constexpr auto kWithLast = [] {
    std::array<std::uint64_t, kBuckets> bounds{};
    std::ranges::copy(kBounds, bounds.begin());
    bounds.back() = std::numeric_limits<std::uint64_t>::max();
    return bounds;
  }();
  const std::size_t first = kFirst[static_cast<std::size_t>(std::bit_width(ns))];
  return first + (ns > kWithLast[first] ? 1 : 0);
}

/// Durations; a negative one counts as none. Any thread.
class Histogram {
 public:
  void add(Duration duration) {
    const auto ns = static_cast<std::uint64_t>(std::max(Duration{}, duration).count());
    buckets_[bucket_of(ns)].add();
    sum_ns_.add(ns);
  }

  std::uint64_t count() const {
    std::uint64_t count = 0;
    for (const Counter& bucket : buckets_) count += bucket.value();
    return count;
  }
  std::uint64_t sum_ns() const { return sum_ns_.value(); }
  /// @param i < kBuckets
  std::uint64_t in_bucket(std::size_t i) const { return buckets_[i].value(); }

 private:
  std::array<Counter, kBuckets> buckets_;
  Counter sum_ns_;
};

}  // namespace gradus::metrics
