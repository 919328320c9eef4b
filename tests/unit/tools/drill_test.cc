#include <gtest/gtest.h>

#include <algorithm>

#include "tools/drill_faults.h"
#include "tools/drill_ladder.h"
#include "tools/drill_report.h"
#include "tools/drill_running.h"
#include "tools/drill_timer.h"
#include "tools/drill_trial.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

TimePoint at(Duration time) { return TimePoint(time); }

SentRequest answered(Duration due, Duration answer, int level, bool right = true) {
  return {.due = at(due), .answered = at(answer), .status = 200, .level = level, .right = right};
}

constexpr Reach kAll{.orders = true, .hides_library = true, .restarts = true};

const DrillFault& named(std::string_view name) {
  return *std::ranges::find(drill_faults(), name, &DrillFault::name);
}

TEST(DrillFaults, AreTakenInTheListsOrder) {
  const auto faults = parse_drill_faults("nan,kill", kAll);
  ASSERT_TRUE(faults.has_value());
  ASSERT_EQ(faults->size(), 2U);
  EXPECT_EQ((*faults)[0].name, "nan");
  EXPECT_EQ((*faults)[1].name, "kill");
  EXPECT_EQ(parse_drill_faults("", kAll)->size(), drill_faults().size());
}

TEST(DrillFaults, RefusesUnknownNamesAndListsTheKnown) {
  for (const char* list : {"flood", "kill,", "kill,,nan"}) {
    const auto faults = parse_drill_faults(list, kAll);
    ASSERT_FALSE(faults.has_value()) << list;
    EXPECT_EQ(faults.error().code, Code::kInvalid);
    EXPECT_NE(faults.error().message.find("kill, stop, segv"), std::string::npos);
  }
}

TEST(DrillFaults, OutOfReachAreRefusedByNameAndLeftOutOfAll) {
  const auto names = [](const Reach& reach) {
    std::vector<std::string_view> found;
    const auto faults = parse_drill_faults("", reach);
    for (const DrillFault& fault : *faults) found.push_back(fault.name);
    return found;
  };
  EXPECT_EQ(names({}), (std::vector<std::string_view>{"kill", "stop"}));
  EXPECT_EQ(names({.hides_library = true, .restarts = true}),
            (std::vector<std::string_view>{"kill", "stop", "nolib", "norestart"}));
  for (const char* name : {"hang", "gone", "slow"}) {
    const auto faults = parse_drill_faults(name, {});
    ASSERT_FALSE(faults.has_value()) << name;
    EXPECT_NE(faults.error().message.find("the fault provider"), std::string::npos);
  }
  EXPECT_FALSE(parse_drill_faults("nolib", {.orders = true}).has_value());
  EXPECT_FALSE(parse_drill_faults("norestart", {.orders = true}).has_value());
}

TEST(DrillFaults, NoRestartOfARealProviderIsThatItsFilesAreGone) {
  EXPECT_EQ(named("norestart").taken, Taken::kRestarts);
  EXPECT_EQ(named("norestart").classes, (std::vector<std::string_view>{"start"}));
  const Reach real{.hides_library = true, .restarts = true};
  for (const DrillFault& fault :
       {parse_drill_faults("", real)->back(), parse_drill_faults("norestart", real)->front()}) {
    EXPECT_EQ(fault.name, "norestart");
    EXPECT_EQ(fault.taken, Taken::kModel);
    EXPECT_EQ(fault.classes, (std::vector<std::string_view>{"died"}));
  }
}

// A move `ms` after the beginning.
LadderMove moved(int ms, std::optional<int> from, std::optional<int> to, std::string cause) {
  return {std::chrono::milliseconds(ms), from, to, std::move(cause)};
}

TEST(DrillTrial, OneMoveDownAndOneUpAfterTheHoldIsWhatIsPromised) {
  const std::vector<LadderMove> moves = {moved(0, 0, 1, "hard_loss"),
                                         moved(1000, 1, 0, "promoted")};
  EXPECT_EQ(broken_promises(named("kill"), moves, "died", 1s), std::vector<std::string>{});
}

TEST(DrillTrial, TellsEachBrokenPromise) {
  const auto broken = [](const char* fault, const std::vector<LadderMove>& moves,
                         const char* fault_class) {
    const auto lines = broken_promises(named(fault), moves, fault_class, 1s);
    return lines.size() == 1 ? lines.front() : std::to_string(lines.size()) + " lines";
  };
  const LadderMove down = moved(0, 0, 1, "hard_loss");
  EXPECT_EQ(broken("kill", {down, moved(500, 1, 0, "promoted")}, "died"),
            "level 0 was current again after 500 ms, before its hold");
  EXPECT_EQ(
      broken("kill", {down, moved(2, 1, 2, "hard_loss"), moved(1500, 2, 0, "promoted")}, "died"),
      "the ladder moved down 2 times");
  EXPECT_EQ(broken("kill", {down}, "hung"), "the status says 'hung' of it, not 'died'");
  EXPECT_EQ(broken("error", {down}, ""), "the ladder moved down for one failure");
  EXPECT_EQ(broken("error", {}, "died"), "the status says 'died' of it, not ''");
}

TEST(DrillTrial, TheClassIsTheLostWorkersOrElseTheMovesCause) {
  LadderView before;
  before.last_fault = "worker 1 was killed by signal 9";
  before.fault_class = "died";
  before.moves = {moved(0, 0, 1, "hard_loss"), moved(9, 1, 0, "promoted")};
  LadderView after = before;
  EXPECT_EQ(class_of(before, after), "");
  after.moves.push_back(moved(20, 0, 1, "failures"));
  EXPECT_EQ(class_of(before, after), "failures");
  after.last_fault = "worker 2 hung for 1000 ms and was killed";
  after.fault_class = "hung";
  EXPECT_EQ(class_of(before, after), "hung");
}

TEST(DrillTimer, DelaysAreRanks) {
  std::vector<Duration> late;
  for (int i = 100; i > 0; --i) late.push_back(i * 1ms);
  const TimerDelay delay = delay_of(late);
  EXPECT_EQ(delay.p50, 51ms);
  EXPECT_EQ(delay.p99, 99ms);
  EXPECT_EQ(delay.max, 100ms);
  std::vector<Duration> none;
  EXPECT_EQ(delay_of(none).max, 0ms);
}

TEST(DrillRunning, OnlyTheLoopbacksUrlsAreTaken) {
  EXPECT_EQ(local_port("http://127.0.0.1:8000"), 8000);
  EXPECT_EQ(local_port("http://localhost:80/"), 80);
  for (const char* url :
       {"http://example.com:8000", "127.0.0.1:8000", "http://127.0.0.1", "http://127.0.0.1:0",
        "http://127.0.0.1:8000/v2", "https://localhost:1"}) {
    EXPECT_FALSE(local_port(url).has_value()) << url;
  }
}

Trial trial(Duration struck, std::optional<Duration> back) {
  return {.struck = at(struck), .back = back, .fault_class = "died", .downs = 1};
}

TEST(DrillReport, TakesTheFirstAnswerByAnotherLevelAfterEachFault) {
  const std::vector<Trial> trials = {trial(100ms, 1s), trial(2s, 3s), trial(9s, 2s)};
  const std::vector<SentRequest> requests = {answered(0ms, 50ms, 1),  // before the first fault
                                             answered(90ms, 140ms, 2),    answered(95ms, 120ms, 1),
                                             answered(1990ms, 2010ms, 1), answered(9s, 9030ms, 3),
                                             answered(9s, 9001ms, 0)};
  const FaultReport report = summarize("kill", trials, requests, Bound{.half = 20ms, .all = 29ms});
  EXPECT_EQ(report.first_answer_p50, 20ms);
  EXPECT_EQ(report.first_answer_max, 30ms);
  EXPECT_EQ(report.within_half, 2U);
  EXPECT_EQ(report.within_all, 2U);
  EXPECT_EQ(report.longest_answer, 50ms);
  EXPECT_EQ(report.back_at_level0, 3s);
  EXPECT_EQ(report.transitions_down, 3U);
  EXPECT_EQ(report.fault_class, "died");
  EXPECT_EQ(report.answered_by_level, (std::map<int, std::size_t>{{0, 1}, {1, 3}, {2, 1}, {3, 1}}));
  EXPECT_TRUE(report.good());
}

TEST(DrillReport, IsNotGoodWhenARequestFailedOrWasWrongOrLevel0StayedAway) {
  const std::vector<Trial> trials = {trial(1ms, 1s)};
  const std::vector<SentRequest> good = {answered(0ms, 2ms, 1)};
  EXPECT_TRUE(summarize("kill", trials, good, {}).good());
  const std::vector<SentRequest> failed = {answered(0ms, 2ms, 1), {.due = at(0ms)}};
  EXPECT_EQ(summarize("kill", trials, failed, {}).failed, 1U);
  EXPECT_FALSE(summarize("kill", trials, failed, {}).good());
  const std::vector<SentRequest> refused = {{.due = at(0ms), .status = 429, .refusal = "full"}};
  EXPECT_EQ(summarize("kill", trials, refused, {}).complaints,
            std::vector<std::string>{"the first failure: 429 full"});
  const std::vector<SentRequest> wrong = {answered(0ms, 2ms, 1, false)};
  EXPECT_EQ(summarize("kill", trials, wrong, {}).wrong, 1U);
  EXPECT_FALSE(summarize("kill", trials, wrong, {}).good());
  const std::vector<Trial> away = {trial(1ms, 1s), trial(2ms, std::nullopt)};
  EXPECT_FALSE(summarize("kill", away, good, {}).back_at_level0.has_value());
  EXPECT_FALSE(summarize("kill", away, good, {}).good());
  std::vector<Trial> missed = trials;
  missed.front().faults = {"it did not strike"};
  EXPECT_FALSE(summarize("kill", missed, good, {}).good());
}

TEST(DrillReport, WritesWhatIsUnknownAsNull) {
  DrillReport report;
  report.faults.resize(1);
  report.faults.front().fault = "gone";
  report.faults.front().answered_by_level = {{0, 2}, {1, 3}};
  const std::string json = report_json(report);
  EXPECT_NE(json.find("\"first_answer_ms\": {\"p50\": null, \"max\": null}"), std::string::npos);
  EXPECT_NE(json.find("\"bound_ms\": null"), std::string::npos);
  EXPECT_NE(json.find("\"back_at_level0_s\": null"), std::string::npos);
  EXPECT_NE(json.find("\"class\": null"), std::string::npos);
  EXPECT_NE(json.find("\"answered_by_level\": {\"0\": 2, \"1\": 3}"), std::string::npos);
}

TEST(DrillReport, ShowsTheTimersDelayAndHowOftenTheBoundHeld) {
  DrillReport report;
  report.timer = {1ms, 2ms, 30ms};
  report.faults.resize(1);
  report.faults.front() = {.fault = "kill",
                           .trials = 20,
                           .bound = Bound{51ms, 251ms},
                           .within_half = 18,
                           .within_all = 20,
                           .fault_class = "died"};
  const std::string table = report_table(report);
  EXPECT_NE(table.find("18/20"), std::string::npos);
  EXPECT_NE(table.find("1.00 ms (p50), 2.00 ms (p99), 30.00 ms (max)"), std::string::npos);
  const std::string json = report_json(report);
  EXPECT_NE(json.find("\"timer_delay_ms\": {\"p50\": 1.000, \"p99\": 2.000, \"max\": 30.000}"),
            std::string::npos);
  EXPECT_NE(json.find("\"bound_ms\": {\"p50\": 51.000, \"max\": 251.000, \"trials_within_p50\": "
                      "18, \"trials_within_max\": 20}"),
            std::string::npos);
}

TEST(DrillLadder, ReadsAStatus) {
  const auto view = parse_ladder(
      R"({"current_level":1,"levels":[
        {"level":0,"state":"ready","breaker":"closed","reason":"","provider_used":"X","target_p99_ms":50,
         "worker":{"pid":7,"state":"running","last_fault":"it died","class":"died"}},
        {"level":1,"state":"loading","breaker":"closed","reason":"","worker":null}],
        "transitions":[
        {"time":"2026-11-29T15:04:05.123456Z","from":0,"to":1,"cause":"hard_loss"},
        {"time":"2026-11-29T15:04:06.123457Z","from":1,"to":null,"cause":"hard_loss"}]})");
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->current, 1);
  EXPECT_TRUE(view->loading);
  EXPECT_TRUE(view->level_0_whole);
  EXPECT_EQ(view->provider, "X");
  EXPECT_EQ(view->target, 50ms);
  EXPECT_EQ(view->worker, 7);
  EXPECT_EQ(view->last_fault, "it died");
  EXPECT_EQ(view->fault_class, "died");
  EXPECT_EQ(view->ready, std::vector<int>{0});
  ASSERT_EQ(view->moves.size(), 2U);
  EXPECT_TRUE(view->moves[0].down() && view->moves[1].down());
  EXPECT_EQ(view->moves[1].at - view->moves[0].at, 1'000'001us);
  EXPECT_EQ(view->moves[0].at.count(), 1'795'964'645'123'456);
  EXPECT_FALSE(parse_ladder("{}").has_value());
}

TEST(DrillLadder, MovesSinceAreTheNewOnesHoweverManyAreKept) {
  LadderView before;
  before.moves = {moved(1, 0, 1, ""), moved(2, 1, 0, "")};
  LadderView now;
  now.moves = {moved(2, 1, 0, ""), moved(3, 0, 1, "")};
  ASSERT_EQ(moves_since(before, now).size(), 1U);
  EXPECT_TRUE(moves_since(before, now).front().down());
  EXPECT_EQ(moves_since({}, now).size(), 2U);
}

}  // namespace
}  // namespace gradus::tools
