#include <gtest/gtest.h>

#include "tools/drill_faults.h"
#include "tools/drill_http.h"
#include "tools/drill_report.h"
#include "tools/drill_server.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

TimePoint at(Duration time) { return TimePoint(time); }

SentRequest answered(Duration due, Duration answer, int level, bool right = true) {
  return {.due = at(due), .answered = at(answer), .status = 200, .level = level, .right = right};
}

TEST(DrillFaults, AreTakenInTheListsOrder) {
  const auto faults = parse_drill_faults("nan,kill");
  ASSERT_TRUE(faults.has_value());
  ASSERT_EQ(faults->size(), 2U);
  EXPECT_EQ((*faults)[0].name, "nan");
  EXPECT_EQ((*faults)[1].name, "kill");
  EXPECT_EQ(parse_drill_faults("")->size(), drill_faults().size());
}

TEST(DrillFaults, RefusesUnknownNamesAndListsTheKnown) {
  for (const char* list : {"flood", "kill,", "kill,,nan"}) {
    const auto faults = parse_drill_faults(list);
    ASSERT_FALSE(faults.has_value()) << list;
    EXPECT_EQ(faults.error().code, Code::kInvalid);
    EXPECT_NE(faults.error().message.find("kill, stop, segv"), std::string::npos);
  }
}

TEST(DrillReport, TakesTheFirstAnswerByAnotherLevelAfterEachFault) {
  const std::vector<Trial> trials = {{at(100ms), 1s, ""}, {at(2s), 3s, ""}, {at(9s), 2s, ""}};
  const std::vector<SentRequest> requests = {answered(0ms, 50ms, 1),  // before the first fault
                                             answered(90ms, 140ms, 2),    answered(95ms, 120ms, 1),
                                             answered(1990ms, 2010ms, 1), answered(9s, 9030ms, 3),
                                             answered(9s, 9001ms, 0)};
  const FaultReport report = summarize("kill", trials, requests, 3);
  EXPECT_EQ(report.first_answer_p50, 20ms);
  EXPECT_EQ(report.first_answer_max, 30ms);
  EXPECT_EQ(report.longest_answer, 50ms);
  EXPECT_EQ(report.back_at_level0, 3s);
  EXPECT_EQ(report.answered_by_level, (std::map<int, std::size_t>{{0, 1}, {1, 3}, {2, 1}, {3, 1}}));
  EXPECT_TRUE(report.good());
}

TEST(DrillReport, IsNotGoodWhenARequestFailedOrWasWrongOrLevel0StayedAway) {
  const std::vector<Trial> trials = {{at(1ms), 1s, ""}};
  const std::vector<SentRequest> good = {answered(0ms, 2ms, 1)};
  EXPECT_TRUE(summarize("kill", trials, good, 1).good());
  const std::vector<SentRequest> failed = {answered(0ms, 2ms, 1), {.due = at(0ms)}};
  EXPECT_EQ(summarize("kill", trials, failed, 1).failed, 1U);
  EXPECT_FALSE(summarize("kill", trials, failed, 1).good());
  const std::vector<SentRequest> wrong = {answered(0ms, 2ms, 1, false)};
  EXPECT_EQ(summarize("kill", trials, wrong, 1).wrong, 1U);
  EXPECT_FALSE(summarize("kill", trials, wrong, 1).good());
  const std::vector<Trial> away = {{at(1ms), 1s, ""}, {at(2ms), std::nullopt, ""}};
  EXPECT_FALSE(summarize("kill", away, good, 1).back_at_level0.has_value());
  EXPECT_FALSE(summarize("kill", away, good, 1).good());
  const std::vector<Trial> missed = {{at(1ms), 1s, "it did not strike"}};
  EXPECT_FALSE(summarize("kill", missed, good, 1).good());
}

TEST(DrillReport, WritesWhatIsUnknownAsNull) {
  FaultReport report;
  report.fault = "gone";
  report.answered_by_level = {{0, 2}, {1, 3}};
  const std::string json = report_json(std::vector{report});
  EXPECT_NE(json.find("\"first_answer_ms\": {\"p50\": null, \"max\": null}"), std::string::npos);
  EXPECT_NE(json.find("\"back_at_level0_s\": null"), std::string::npos);
  EXPECT_NE(json.find("\"answered_by_level\": {\"0\": 2, \"1\": 3}"), std::string::npos);
}

TEST(DrillHttp, ReadsAnAnswerThatComesByteByByte) {
  const std::string sent =
      "HTTP/1.1 200 OK\r\nGradus-Level: 2\r\nInference-Header-Content-Length: 2\r\n"
      "Content-Length: 5\r\n\r\n{}abc";
  AnswerReader reader;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto whole = reader.take(sent.substr(i, 1));
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(*whole, i + 1 == sent.size());
  }
  EXPECT_EQ(reader.answer().status, 200);
  EXPECT_EQ(reader.answer().level(), 2);
  EXPECT_EQ(reader.answer().tensors(), "abc");
  EXPECT_FALSE(reader.take("more").has_value());
}

TEST(DrillServer, ReadsALadder) {
  const auto view = parse_ladder(
      R"({"current_level":1,"levels":[
        {"level":0,"state":"ready","breaker":"closed","reason":"","worker":{"pid":7,"state":"running"}},
        {"level":1,"state":"loading","breaker":"closed","reason":"","worker":null}],
        "transitions":[{"from":null,"to":1},{"from":1,"to":0},{"from":0,"to":1},{"from":1,"to":null}]})");
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->current, 1);
  EXPECT_TRUE(view->loading);
  EXPECT_TRUE(view->level_0_whole);
  EXPECT_EQ(view->worker, 7);
  EXPECT_EQ(view->ready, std::vector<int>{0});
  EXPECT_EQ(view->transitions_down, 2U);
  EXPECT_FALSE(parse_ladder("{}").has_value());
}

}  // namespace
}  // namespace gradus::tools
