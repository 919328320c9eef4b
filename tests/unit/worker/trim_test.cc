// What a worker gives back when nobody needs it.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "started.h"

namespace gradus::worker {
namespace {

std::size_t threads(const Started& started) {
  return std::stoul(started.status_line("Threads").substr(sizeof "Threads:"));
}

TEST(Trim, ClosesChannelsThatNobodyNeededSinceTheLastTime) {
  Started started;
  const std::size_t with_one_channel = threads(started);
  std::vector<std::jthread> runs;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    runs.emplace_back([&] { good += started.run({kMeet, 4}).has_value(); });
  }
  runs.clear();
  ASSERT_EQ(good, 4);
  ASSERT_EQ(started.worker->idle().channels, 4U);
  started.worker->trim();
  EXPECT_EQ(started.worker->idle().channels, 4U);  // all were needed
  ASSERT_TRUE(started.run({1}));
  started.worker->trim();
  EXPECT_EQ(started.worker->idle().channels, 1U);
  EXPECT_TRUE(within(kLong, [&] { return threads(started) == with_one_channel; }));
  started.worker->trim();
  EXPECT_EQ(started.worker->idle().channels, 0U);
  EXPECT_TRUE(within(kLong, [&] { return started.maps("gradus") == 0; }));
  EXPECT_TRUE(started.run({1}));
}

TEST(Trim, GivesBackMemoryThatNoRunNeedsAnyMore) {
  Started started;
  ASSERT_TRUE(started.run(std::vector<float>(4'000'000, 1)));
  started.worker->trim();
  EXPECT_GE(started.worker->idle().slot_bytes, 16'000'000U);  // a run has just needed it
  ASSERT_TRUE(started.run({1}));
  started.worker->trim();
  EXPECT_EQ(started.worker->idle().slot_bytes, 0U);
  ASSERT_TRUE(started.run({1}));
  EXPECT_LT(started.worker->idle().slot_bytes, 1'000'000U);
}

TEST(Trim, OutputsThatSomebodyHoldsStayReadable) {
  Started started;
  const auto answer = started.run({21}).value();
  started.worker->trim();
  started.worker->trim();
  EXPECT_EQ(started.worker->idle().channels, 0U);
  EXPECT_EQ(floats(answer.at(0)).at(0), 42);
}

}  // namespace
}  // namespace gradus::worker
