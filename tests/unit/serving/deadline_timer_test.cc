#include "serving/deadline_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

struct Recorder final : DeadlineTimer::Waiter {
  explicit Recorder(std::vector<int>& order, int id) : order_(order), id_(id) {}
  void due() override {
    order_.push_back(id_);
    expired.set_value(steady_clock().now());
  }
  std::promise<TimePoint> expired;

 private:
  std::vector<int>& order_;
  int id_;
};

TEST(DeadlineTimer, ExpiresInOrderOfDeadlineAndNeverEarly) {
  DeadlineTimer timer(steady_clock());
  std::vector<int> order;
  const auto late = std::make_shared<Recorder>(order, 2);
  const auto soon = std::make_shared<Recorder>(order, 1);
  const TimePoint start = steady_clock().now();
  timer.add(start + 400ms, late);
  timer.add(start + 20ms, soon);  // earlier than what the thread sleeps for
  EXPECT_GE(soon->expired.get_future().get(), start + 20ms);
  EXPECT_GE(late->expired.get_future().get(), start + 400ms);
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(DeadlineTimer, ACancelledOneIsLetGoAndNeverExpires) {
  DeadlineTimer timer(steady_clock());
  std::vector<int> order;
  const auto cancelled = std::make_shared<Recorder>(order, 1);
  const auto other = std::make_shared<Recorder>(order, 2);
  const TimePoint start = steady_clock().now();
  const auto ticket = timer.add(start + 200ms, cancelled);
  timer.add(start + 201ms, other);
  timer.cancel(ticket);
  EXPECT_EQ(cancelled.use_count(), 1);
  other->expired.get_future().wait();
  EXPECT_THAT(order, testing::ElementsAre(2));
  timer.cancel(ticket);  // harmless
}

TEST(DeadlineTimer, StoppingDoesNotWaitForDeadlines) {
  std::vector<int> order;
  const auto far = std::make_shared<Recorder>(order, 1);
  {
    DeadlineTimer timer(steady_clock());
    timer.add(steady_clock().now() + 1h, far);
  }
  EXPECT_EQ(far.use_count(), 1);
  EXPECT_TRUE(order.empty());
}

}  // namespace
}  // namespace gradus::serving
