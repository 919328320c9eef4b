#include "batch/size_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gradus::batch {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::uint64_t kMany = 1000;

// The sizes of so many batches, with enough waiting for each.
std::vector<std::uint32_t> batches(SizeTrials& trials, std::uint32_t count, std::uint32_t in_use,
                                   std::uint32_t largest) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t i = 0; i < count; ++i) {
    sizes.push_back(trials.size(in_use, kMany));
    EXPECT_EQ(trials.took(sizes.back(), in_use, largest), sizes.back() != in_use);
  }
  return sizes;
}

std::vector<std::uint32_t> others(std::vector<std::uint32_t> sizes, std::uint32_t in_use) {
  std::erase(sizes, in_use);
  return sizes;
}

TEST(SizeTrials, EachOtherSizeHasItsTurn) {
  SizeTrials trials;
  const auto sizes = batches(trials, 5 * (SizeTrials::kOftenEvery + 1), 4, 8);
  EXPECT_THAT(others(sizes, 4), ElementsAre(1, 2, 8, 1, 2)) << "up to the largest";
  EXPECT_EQ(sizes[SizeTrials::kOftenEvery], 1U) << "after so many of the size in use";
}

TEST(SizeTrials, NoneIsMuchLargerThanTheSizeInUse) {
  SizeTrials trials;
  EXPECT_THAT(others(batches(trials, 5 * (SizeTrials::kOftenEvery + 1), 1, 64), 1), Each(2U));
}

TEST(SizeTrials, AreSeldomOnceEachWasSeenAFewTimes) {
  SizeTrials trials;
  constexpr std::uint32_t kFew = 2 * SizeTrials::kOften + 1;  // sizes 1 and 4 so often, and one
  const auto often = batches(trials, kFew * (SizeTrials::kOftenEvery + 1), 2, 4);
  EXPECT_EQ(others(often, 2).size(), kFew);
  const auto seldom = batches(trials, 10 * (SizeTrials::kSeldomEvery + 1), 2, 4);
  EXPECT_EQ(others(seldom, 2).size(), 10U);
}

TEST(SizeTrials, WaitForNobody) {
  SizeTrials trials;
  batches(trials, SizeTrials::kOftenEvery + 1, 8, 8);  // the last of them of one
  batches(trials, SizeTrials::kOftenEvery, 8, 8);
  ASSERT_EQ(trials.size(8, kMany), 2U);
  EXPECT_EQ(trials.size(8, 1), 8U) << "one alone runs as ever";
}

TEST(SizeTrials, ABatchThatCannotHaveTheSizeEndsTheTrial) {
  SizeTrials trials;
  batches(trials, SizeTrials::kOftenEvery, 8, 8);
  ASSERT_EQ(trials.size(8, kMany), 1U);
  EXPECT_FALSE(trials.took(3, 8, 8)) << "a request of three samples";
  EXPECT_EQ(trials.size(8, kMany), 8U);
}

TEST(SizeTrials, WhatHasBecomeTheSizeInUseIsNoTrial) {
  SizeTrials trials;
  batches(trials, SizeTrials::kOftenEvery, 4, 4);
  ASSERT_EQ(trials.size(4, kMany), 1U);
  EXPECT_FALSE(trials.took(1, 1, 4));
  EXPECT_THAT(batches(trials, SizeTrials::kOftenEvery, 1, 4), Each(1U));
}

TEST(SizeTrials, NoneWhereOnlyOneSizeIsKnown) {
  SizeTrials trials;
  EXPECT_THAT(batches(trials, 1000, 1, 1), Each(1U));
}

}  // namespace
}  // namespace gradus::batch
