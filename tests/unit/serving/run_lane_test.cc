#include "serving/run_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

namespace gradus::serving {
namespace {

using ::testing::ElementsAre;

// Occupies a lane's only thread until opened.
class Gate {
 public:
  RunLane::Job job() {
    return [this] {
      entered_.set_value();
      open_.get_future().wait();
    };
  }
  void wait_entered() { entered_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> entered_, open_;
};

TEST(RunLane, RunsInOrderOfArrival) {
  RunLane lane("test", 1, 10);
  std::vector<int> order;
  std::latch all(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lane.try_push([&, i] {
      order.push_back(i);
      all.count_down();
    }));
  }
  all.wait();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(RunLane, RefusesWhenFullAndTakesAgainWhenItIsNot) {
  RunLane lane("test", 1, 2);
  Gate gate;
  ASSERT_TRUE(lane.try_push(gate.job()));
  gate.wait_entered();
  std::latch ran(2);
  const auto job = [&ran] { ran.count_down(); };
  EXPECT_TRUE(lane.try_push(job));
  EXPECT_TRUE(lane.try_push(job));
  EXPECT_FALSE(lane.try_push(job));
  EXPECT_EQ(lane.waiting(), 2u);
  gate.open();
  ran.wait();
  EXPECT_TRUE(lane.try_push([] {}));
}

TEST(RunLane, RunsAsManyAtOnceAsItHasThreads) {
  RunLane lane("test", 2, 10);
  std::latch both(2);
  std::latch done(2);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(lane.try_push([&] {
      both.arrive_and_wait();  // would never end with one thread
      done.count_down();
    }));
  }
  done.wait();
}

TEST(RunLane, StoppingDestroysWhatWaitsAndFinishesWhatRuns) {
  const auto token = std::make_shared<int>(1);
  bool finished = false;
  std::promise<void> entered;
  std::promise<void> open;
  std::jthread opener;
  {
    RunLane lane("test", 1, 10);
    ASSERT_TRUE(lane.try_push([&] {
      entered.set_value();
      open.get_future().wait();
      finished = true;
    }));
    entered.get_future().wait();
    ASSERT_TRUE(lane.try_push([token] { FAIL() << "must not run"; }));
    opener = std::jthread([&open, &token] {
      while (token.use_count() > 1) std::this_thread::yield();  // the waiting job goes first
      open.set_value();
    });
  }
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace gradus::serving
