#include "metrics/histogram.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gradus::metrics {
namespace {

using namespace std::chrono_literals;

TEST(Histogram, BoundsAreOneTwoFiveOfEachDecade) {
  const std::vector<std::uint64_t> ends = {kBounds[0], kBounds[1], kBounds[2], kBounds[3],
                                           kBounds.back()};
  EXPECT_EQ(ends, (std::vector<std::uint64_t>{10'000, 20'000, 50'000, 100'000, 50'000'000'000}));
}

TEST(Histogram, PutsADurationUnderTheLeastBoundThatHoldsIt) {
  const auto by_search = [](std::uint64_t ns) {
    return static_cast<std::size_t>(std::ranges::lower_bound(kBounds, ns) - kBounds.begin());
  };
  std::vector<std::uint64_t> durations = {0, 1, 9'999, std::numeric_limits<std::uint64_t>::max()};
  for (const std::uint64_t bound : kBounds) {
    for (const std::uint64_t ns : {bound - 1, bound, bound + 1}) durations.push_back(ns);
  }
  for (std::uint64_t power = 1; power != 0; power <<= 1) {
    for (const std::uint64_t ns : {power - 1, power, power + 1}) durations.push_back(ns);
  }
  for (const std::uint64_t ns : durations) EXPECT_EQ(bucket_of(ns), by_search(ns)) << ns;
}

TEST(Histogram, SumsAndCountsWhatWasAdded) {
  Histogram histogram;
  for (const Duration duration : {Duration{10us}, Duration{11us}, Duration{3ms}, Duration{90s}}) {
    histogram.add(duration);
  }
  histogram.add(-5ms);  // nobody waits for less than nothing
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_EQ(histogram.sum_ns(), 90'003'021'000u);
  EXPECT_EQ(histogram.in_bucket(0), 2u);
  EXPECT_EQ(histogram.in_bucket(1), 1u);
  EXPECT_EQ(histogram.in_bucket(kBuckets - 1), 1u);
}

TEST(Histogram, LosesNothingToOtherThreads) {
  constexpr std::uint64_t kEach = 20'000;
  Histogram histogram;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::uint64_t n = 0; n < kEach; ++n) histogram.add(1us);
      });
    }
  }
  EXPECT_EQ(histogram.count(), 4 * kEach);
  EXPECT_EQ(histogram.sum_ns(), 4 * kEach * 1000);
}

}  // namespace
}  // namespace gradus::metrics
