// The canary: how a level that has held gets shares of live traffic, and what ends that.
#include <gmock/gmock.h>

#include "story.h"

namespace gradus::ladder {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Level 0 has held for 30 s beside 100 requests a second that level 1 answers: its canary begins
/// now.
class UnderLoad {
 public:
  UnderLoad() : story(Story::all_ready()) {
    story.until(1s);
    story.lost(0);
    story.ready(0);
    story.transitions.clear();
    run_for(30s + 10ms);
  }

  /// What level 0 does with the requests of its share.
  enum class Answer { kGood, kSlow, kBad };

  /// Requests go where their routes say, probes and ticks come each second.
  void run_for(Duration span, Answer answer = Answer::kGood) {
    const TimePoint end = story.now() + span;
    for (; story.now() < end; story.pass(10ms)) {
      ++requests;
      if (story.route_of().front() == 0) {
        ++canaries;
        const Duration run = answer == Answer::kSlow ? 51ms : 5ms;
        story.outcome(0, answer != Answer::kBad, run);
      } else {
        story.good(1, 5ms);
      }
      if (story.since_start() % 1s == 0ms) {
        if (probes_too) story.probe(0);
        story.tick();
      }
    }
  }
  std::optional<double> share() const {
    return status(story.state, story.now()).levels[0].canary_share;
  }
  std::string last_failure() const { return status(story.state, story.now()).last_canary; }

  Story story;
  int requests = 0;
  int canaries = 0;
  bool probes_too = true;
};

TEST(Canary, BeginsWhenTheHoldIsCompleteAndThereIsTraffic) {
  UnderLoad load;
  EXPECT_EQ(load.canaries, 0);
  EXPECT_EQ(load.share(), 0.05);
  EXPECT_EQ(load.story.current(), 1);
}

TEST(Canary, GetsFiveThenTwentyFivePercentThenAll) {
  UnderLoad load;
  load.requests = 0;
  load.run_for(4s);
  EXPECT_EQ(load.canaries, load.requests / 20);
  load.run_for(1s + 10ms);  // 5 s with over 20 good answers
  EXPECT_EQ(load.share(), 0.25);
  load.requests = load.canaries = 0;
  load.run_for(4s);
  EXPECT_EQ(load.canaries, load.requests / 4);
  EXPECT_THAT(load.story.moves(), IsEmpty());
  load.run_for(1s + 10ms);
  EXPECT_THAT(load.story.moves(), ElementsAre(Pair(1, 0)));
  EXPECT_EQ(load.story.last_cause(), Cause::kPromoted);
  EXPECT_EQ(load.share(), std::nullopt);
}

TEST(Canary, TwoFailuresEndItAndTheHoldStartsAgain) {
  UnderLoad load;
  load.run_for(210ms, UnderLoad::Answer::kBad);
  EXPECT_EQ(load.canaries, 1);
  EXPECT_EQ(load.share(), 0.05) << "one failure is forgiven";
  load.run_for(200ms, UnderLoad::Answer::kBad);
  EXPECT_EQ(load.share(), std::nullopt);
  EXPECT_EQ(load.last_failure(),
            "level 0 failed as a canary at 5 % of the requests: 0 good, 2 failed, 0 slow");
  load.run_for(29s);
  EXPECT_EQ(load.share(), std::nullopt);
  EXPECT_EQ(load.canaries, 2) << "no request met the third failure";
  load.run_for(2s);
  EXPECT_EQ(load.share(), 0.05);
  EXPECT_THAT(load.story.moves(), IsEmpty());
}

TEST(Canary, ItsFailureHasTheLastError) {
  UnderLoad load;
  load.story.bad(0, 2, "it broke");
  EXPECT_THAT(load.last_failure(), EndsWith("0 slow, last error: it broke"));
}

TEST(Canary, ThreeSlowAnswersEndIt) {
  UnderLoad load;
  load.run_for(500ms);  // the first runs of a shape cannot be slow
  load.run_for(400ms, UnderLoad::Answer::kSlow);
  EXPECT_EQ(load.share(), 0.05);
  load.run_for(200ms, UnderLoad::Answer::kSlow);
  EXPECT_EQ(load.share(), std::nullopt);
  EXPECT_THAT(load.last_failure(), HasSubstr("0 failed, 3 slow"));
}

TEST(Canary, TheSecondStageCountsAnew) {
  UnderLoad load;
  load.run_for(200ms, UnderLoad::Answer::kBad);
  load.run_for(5s + 10ms);
  ASSERT_EQ(load.share(), 0.25);
  load.run_for(40ms, UnderLoad::Answer::kBad);
  EXPECT_EQ(load.share(), 0.25);
  load.run_for(40ms, UnderLoad::Answer::kBad);
  EXPECT_EQ(load.share(), std::nullopt);
}

TEST(Canary, AHardLossEndsIt) {
  UnderLoad load;
  load.story.lost(0);
  EXPECT_EQ(load.share(), std::nullopt);
  load.story.ready(0);
  load.run_for(20s);
  EXPECT_EQ(load.share(), std::nullopt);
}

TEST(Canary, ALoadThatItCannotCarryEndsItWithoutAFault) {
  UnderLoad load;
  load.story.predict(0, 60ms);
  load.story.tick();
  EXPECT_EQ(load.share(), std::nullopt);
  EXPECT_EQ(load.last_failure(), "");
  load.story.predict(0, 10ms);
  load.story.tick();
  EXPECT_EQ(load.share(), 0.05) << "its hold was not broken";
}

TEST(Canary, WithFewRequestsProbesMakeUpTheRest) {
  auto story = Story::all_ready();
  story.until(1s);
  story.lost(0);
  story.ready(0);
  story.transitions.clear();
  std::vector<TimePoint> stages;
  std::optional<double> share;
  for (; story.moves().empty() && story.since_start() < 200s; story.pass(1s)) {
    if (story.since_start() % 2s == 0s) story.route_of();  // half a request a second
    story.probe(0);
    story.tick();
    const auto now = status(story.state, story.now()).levels[0].canary_share;
    if (now != share) stages.push_back(story.now());
    share = now;
  }
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[1] - stages[0], 30s);
  EXPECT_EQ(stages[2] - stages[1], 30s);
  EXPECT_EQ(story.current(), 0);
}

TEST(Canary, WhenTheTrafficEndsTheHoldAlonePromotes) {
  UnderLoad load;
  for (int i = 0; i < 6; ++i, load.story.pass(1s)) {
    load.story.probe(0);
    load.story.tick();
  }
  EXPECT_EQ(load.story.current(), 0);
}

TEST(Canary, IsNotForRequestsThatDoNotAcceptIt) {
  UnderLoad load;
  for (int i = 0; i < 40; ++i) EXPECT_THAT(load.story.route_of(1, 2), ElementsAre(1, 2));
  EXPECT_EQ(load.story.route_of().front(), 1) << "those did not use up the share";
}

TEST(Canary, ARequestOfItsShareGoesOnAsEveryOther) {
  UnderLoad load;
  std::vector<int> route;
  while (route.empty() || route.front() != 0) route = load.story.route_of();
  EXPECT_THAT(route, ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace gradus::ladder
