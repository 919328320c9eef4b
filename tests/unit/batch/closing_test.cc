#include "batch/closing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "unit/batch/item.h"

namespace gradus::batch {
namespace {

using config::Tier;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// The rules, on plain numbers. Zero is when the oldest came.
struct Case {
  const char* name;
  Candidate candidate;
  Situation situation;
  bool close;
  Because because;
  std::uint32_t samples = 0;
  TimePoint look_again = TimePoint::max();
};

const Rules kRules{.max_size = 8, .max_delay = 5ms, .preferred_sizes = {2, 4}, .margin = 1ms};

Candidate gathered(std::uint32_t samples, TimePoint deadline = TimePoint::max()) {
  return {.samples = samples, .oldest = at(0s), .deadline = deadline};
}
Candidate preferred(std::uint32_t samples, std::uint32_t size) {
  Candidate candidate = gathered(samples);
  candidate.preferred = size;
  return candidate;
}
Candidate alone(std::uint32_t samples) {
  Candidate candidate = gathered(samples);
  candidate.alone = true;
  return candidate;
}
Candidate full(std::uint32_t samples) {
  Candidate candidate = gathered(samples);
  candidate.full = true;
  return candidate;
}

TEST(Decide, ClosesByTheFirstRuleThatApplies) {
  constexpr auto kNever = TimePoint::max();
  const std::vector<Case> cases{
      {"nothing waits", {}, {at(9s), 1, 0, 0ms}, false, Because::kEmpty},
      {"no instance is idle, whatever else", full(8), {at(9s), 0, 0, 0ms}, false, Because::kBusy},
      {"alone", alone(1), {at(0s), 1, 9, 0ms}, true, Because::kAlone, 8},
      {"full", full(8), {at(0s), 1, 9, 0ms}, true, Because::kFull, 8},
      {"the rest no longer fits", full(7), {at(0s), 1, 9, 0ms}, true, Because::kFull, 8},
      {"nothing else coming", gathered(1), {at(0s), 1, 0, 0ms}, true, Because::kNothingComing, 8},
      {"one more coming", gathered(1), {at(0s), 1, 1, 0ms}, false, Because::kGathering, 0, at(5ms)},
      {"just before max_delay",
       gathered(1),
       {at(5ms - 1ns), 1, 1, 0ms},
       false,
       Because::kGathering,
       0,
       at(5ms)},
      {"max_delay", gathered(1), {at(5ms), 1, 1, 0ms}, true, Because::kWaited, 8},
      {"just in time for the deadline",
       gathered(1, at(13ms)),
       {at(2ms - 1ns), 1, 1, 10ms},
       false,
       Because::kGathering,
       0,
       at(2ms)},
      {"deadline", gathered(1, at(13ms)), {at(2ms), 1, 1, 10ms}, true, Because::kDeadline, 8},
      {"a deadline beyond max_delay",
       gathered(1, at(17ms)),
       {at(2ms), 1, 1, 10ms},
       false,
       Because::kGathering,
       0,
       at(5ms)},
      {"a hopeless deadline",
       gathered(1, at(3ms)),
       {at(0ms), 1, 1, 10ms},
       true,
       Because::kDeadline,
       8},
      {"preferred, the next is out of reach",
       preferred(2, 2),
       {at(0s), 1, 1, 0ms},
       true,
       Because::kPreferred,
       2},
      {"preferred, the next is in reach",
       preferred(2, 2),
       {at(0s), 1, 2, 0ms},
       false,
       Because::kGathering,
       0,
       at(5ms)},
      {"preferred, the next was in reach too long",
       preferred(3, 2),
       {at(5ms), 1, 2, 0ms},
       true,
       Because::kWaited,
       8},
      {"more than preferred is cut",
       preferred(3, 2),
       {at(0s), 1, 0, 0ms},
       true,
       Because::kPreferred,
       2},
      {"the largest preferred waits for nothing",
       preferred(4, 4),
       {at(0s), 1, 9, 0ms},
       true,
       Because::kPreferred,
       4},
  };
  for (const Case& c : cases) {
    const Decision decision = decide(c.candidate, kRules, c.situation);
    EXPECT_EQ(decision.close, c.close) << c.name;
    EXPECT_EQ(decision.because, c.because) << c.name << ": " << because_name(decision.because);
    EXPECT_EQ(decision.samples, c.samples) << c.name;
    EXPECT_EQ(decision.look_again, c.look_again) << c.name;
    EXPECT_TRUE(!c.close || decision.look_again == kNever) << c.name;
  }
}

TEST(Decide, WithoutADelayAnIdleInstanceTakesWhatThereIs) {
  const Decision decision = decide(gathered(1), {.max_size = 8}, {at(0s), 1, 7, 0ms});
  EXPECT_TRUE(decision.close);
  EXPECT_EQ(decision.because, Because::kWaited);
}

TEST(Decide, EveryReasonHasAName) {
  for (int i = 0; i <= static_cast<int>(Because::kNothingComing); ++i) {
    EXPECT_FALSE(because_name(static_cast<Because>(i)).empty());
  }
}

// Looking and taking, on a queue.
class BatchOf : public ::testing::Test {
 protected:
  Item& add(int id, std::uint32_t samples = 1, std::uint64_t group = 1, std::int64_t length = 0,
            TimePoint deadline = at(1h)) {
    Item& item = items_.emplace_back(id, Tier::kStandard, deadline);
    item.samples = samples;
    item.group = group;
    item.length = length;
    queue_.push(item, at(0s), 0);
    return item;
  }
  void TearDown() override { queue_.drain(); }

  Queue queue_{{}};

 private:
  std::deque<Item> items_;
};

TEST_F(BatchOf, OneGroupInOrder) {
  add(1, 1, 7);
  add(2, 1, 8);
  add(3, 1, 7);
  const Rules rules{.max_size = 8};
  const Candidate candidate = look(queue_, rules, at(0s));
  EXPECT_EQ(candidate.samples, 2u);
  EXPECT_FALSE(candidate.full);
  EXPECT_FALSE(candidate.alone);
  EXPECT_EQ(candidate.oldest, at(0s));
  EXPECT_EQ(candidate.deadline, at(1h));
  EXPECT_EQ(queue_.size(), 3u) << "looking takes nothing";
  const Taken taken = take(queue_, rules, 8, at(0s));
  EXPECT_THAT(ids(taken.entries), ElementsAre(1, 3));
  EXPECT_EQ(taken.samples, 2u);
  EXPECT_THAT(order(queue_, at(0s)), ElementsAre(2));
}

TEST_F(BatchOf, GroupZeroRunsAlone) {
  add(1, 1, 0);
  add(2, 1, 0);
  EXPECT_TRUE(look(queue_, {.max_size = 8}, at(0s)).alone);
  EXPECT_THAT(ids(take(queue_, {.max_size = 8}, 8, at(0s)).entries), ElementsAre(1));
}

TEST_F(BatchOf, GroupZeroJoinsNobodyElse) {
  add(1, 1, 5);
  add(2, 1, 0);
  EXPECT_THAT(ids(take(queue_, {.max_size = 8}, 8, at(0s)).entries), ElementsAre(1));
}

TEST_F(BatchOf, AtMostMaxSizeSamples) {
  add(1, 3);
  add(2, 4);
  add(3, 2);
  add(4, 1);
  add(5, 1);
  const Rules rules{.max_size = 8};
  EXPECT_TRUE(look(queue_, rules, at(0s)).full);
  const Taken taken = take(queue_, rules, 8, at(0s));
  EXPECT_THAT(ids(taken.entries), ElementsAre(1, 2, 4)) << "3 does not fit, 4 does";
  EXPECT_EQ(taken.samples, 8u);
}

TEST_F(BatchOf, IsFullWhenOneOfTheGroupNoLongerFits) {
  add(1, 6);
  add(2, 3);
  const Candidate candidate = look(queue_, {.max_size = 8}, at(0s));
  EXPECT_TRUE(candidate.full);
  EXPECT_EQ(candidate.samples, 6u);
}

TEST_F(BatchOf, TheFirstWhateverItsSize) {
  add(1, 20);
  add(2, 1);
  const Candidate candidate = look(queue_, {.max_size = 8}, at(0s));
  EXPECT_TRUE(candidate.full);
  EXPECT_EQ(candidate.samples, 20u);
  EXPECT_THAT(ids(take(queue_, {.max_size = 8}, 8, at(0s)).entries), ElementsAre(1));
}

TEST_F(BatchOf, APreferredSizeMetExactly) {
  add(1, 1);
  add(2, 2);
  add(3, 1);
  add(4, 1);
  Rules rules{.max_size = 8, .preferred_sizes = {2, 4}};
  EXPECT_EQ(look(queue_, rules, at(0s)).preferred, 4u);
  rules.preferred_sizes = {2};
  EXPECT_EQ(look(queue_, rules, at(0s)).preferred, 0u) << "1, 3, 4, 5 samples";
  EXPECT_THAT(ids(take(queue_, rules, 4, at(0s)).entries), ElementsAre(1, 2, 3));
}

TEST_F(BatchOf, WastesAtMostItsShareOnPadding) {
  // 16 + 12 of 2 x 16 is 1/8 padding; with 8 it would be 36 of 48, 1/4; with 15 51 of 64, 13/64.
  add(1, 1, 1, 16);
  add(2, 1, 1, 12);
  add(3, 1, 1, 8);
  add(4, 1, 1, 15);
  const Rules strict{.max_size = 8, .max_padding_waste = 0.2499};
  EXPECT_EQ(look(queue_, strict, at(0s)).longest, 16);
  EXPECT_EQ(look(queue_, strict, at(0s)).samples, 3u);
  const Rules exact{.max_size = 8, .max_padding_waste = 0.25};
  EXPECT_EQ(look(queue_, exact, at(0s)).samples, 4u);
  EXPECT_THAT(ids(take(queue_, strict, 8, at(0s)).entries), ElementsAre(1, 2, 4));
}

TEST_F(BatchOf, ALongerOneJoinsIfThoseBeforeItWasteLittle) {
  add(1, 3, 1, 10);
  add(2, 1, 1, 13);
  add(3, 1, 1, 14);
  // With 2: 9 of 52 is 0.173. With 3 too: 4 x 3 + 1 = 13 of 70 is 0.186.
  EXPECT_EQ(look(queue_, {.max_size = 8, .max_padding_waste = 0.18}, at(0s)).longest, 13);
  const Taken taken = take(queue_, {.max_size = 8, .max_padding_waste = 0.19}, 8, at(0s));
  EXPECT_EQ(taken.longest, 14);
  EXPECT_EQ(taken.samples, 5u);
}

TEST_F(BatchOf, NeverHoldsTheExpired) {
  add(1, 1, 1, 0, at(10ms));
  add(2, 1, 1, 0, at(20ms));
  add(3, 1, 1, 0, at(30ms));
  const Candidate before = look(queue_, {.max_size = 8}, at(10ms - 1ns));
  EXPECT_EQ(before.samples, 3u);
  EXPECT_EQ(before.deadline, at(10ms));
  EXPECT_EQ(look(queue_, {.max_size = 8}, at(10ms)).samples, 2u);
  const Taken taken = take(queue_, {.max_size = 8}, 8, at(20ms));
  EXPECT_THAT(ids(taken.entries), ElementsAre(3));
  EXPECT_THAT(ids(taken.expired), ElementsAre(1, 2));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(BatchOf, NobodyWhenAllHaveExpired) {
  add(1, 1, 1, 0, at(10ms));
  EXPECT_EQ(look(queue_, {.max_size = 8}, at(10ms)).samples, 0u);
  const Taken taken = take(queue_, {.max_size = 8}, 8, at(10ms));
  EXPECT_THAT(taken.entries, IsEmpty());
  EXPECT_THAT(ids(taken.expired), ElementsAre(1));
}

}  // namespace
}  // namespace gradus::batch
