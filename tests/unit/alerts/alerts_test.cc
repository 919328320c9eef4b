// What receivers are told and when, in times that are data; and the one thread that tells them.
#include "alerts/alerts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "alerts/alert_board.h"
#include "alerts/event_text.h"
#include "alerts/webhook_queue.h"

namespace gradus::alerts {
namespace {

using namespace std::chrono_literals;
using serving::Event;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Event::Kind;
using State = Event::State;

constexpr TimePoint kStart{1h};
constexpr WallTime kWall{1'700'000'000s};  // 2023-11-14T22:13:20Z
constexpr const char* kWho = "host:8000";

Event urgent(State state, WallTime at = kWall) {
  return {.kind = Kind::kUrgent,
          .state = state,
          .model = "m",
          .version = "2",
          .level = 3,
          .text = "t",
          .at = at};
}

Event moved(std::optional<int> to) {
  return {.kind = Kind::kTransition,
          .state = State::kOnce,
          .model = "m\"",
          .from = 0,
          .to = to,
          .cause = "hard_loss",
          .text = "moves",
          .at = kWall};
}

TEST(WebhookJson, HasWhatTheEventHas) {
  EXPECT_EQ(webhook_json(urgent(State::kBegun), kWho, "id-1"),
            R"({"id":"id-1","event":"urgent","state":"begun","severity":"critical",)"
            R"("time":"2023-11-14T22:13:20.000000Z","instance":"host:8000","model":"m",)"
            R"("version":"2","level":3,"text":"t"})");
  EXPECT_THAT(webhook_json(moved({}), kWho, "id-2"),
              HasSubstr(R"("model":"m\"","from":0,"to":null,"cause":"hard_loss","text":"moves")"));
  const Event better{.kind = Kind::kDegraded, .state = State::kEnded, .model = "m"};
  EXPECT_THAT(webhook_json(better, kWho, "id-3"), HasSubstr(R"("event":"recovered")"));
}

TEST(AlertJson, DescribesWithTheReason) {
  const Event lost{.kind = Kind::kLevelLost, .text = "level 0 is unavailable", .reason = "no GPU"};
  EXPECT_THAT(alert_json(lost, label_members(lost), kWho, kWall, kWall),
              HasSubstr(R"("description":"level 0 is unavailable: no GPU")"));
}

TEST(WebhookQueue, GivesEventsInOrderAndTheSameOneUntilItIsDelivered) {
  WebhookQueue queue(kWall, 10);
  EXPECT_EQ(queue.due(), TimePoint::max());
  queue.add(moved(1), kStart);
  queue.add(moved(2), kStart);
  const auto first = queue.take(kStart, kWall, kWho);
  ASSERT_TRUE(first);
  EXPECT_THAT(*first,
              AllOf(HasSubstr("\"to\":1"), HasSubstr("\"id\":\"host:8000/1700000000000000/1\"")));
  EXPECT_EQ(queue.take(kStart, kWall, kWho), first) << "a try that failed";
  queue.delivered(kStart);
  EXPECT_THAT(*queue.take(kStart, kWall, kWho), HasSubstr("\"to\":2"));
  queue.refused(kStart);
  EXPECT_EQ(queue.take(kStart, kWall, kWho), std::nullopt);
  EXPECT_EQ(queue.counters().sent, 1U);
  EXPECT_EQ(queue.counters().dropped, 1U);
}

TEST(WebhookQueue, DropsTheOldestButNeverTheOneUnderWay) {
  WebhookQueue queue(kWall, 3);
  queue.add(moved(0), kStart);
  ASSERT_TRUE(queue.take(kStart, kWall, kWho));
  for (int to = 1; to <= 5; ++to) queue.add(moved(to), kStart);
  EXPECT_EQ(queue.counters().dropped, 3U);
  EXPECT_EQ(queue.counters().waiting, 3U);
  for (const char* to : {"\"to\":0", "\"to\":4", "\"to\":5"}) {
    EXPECT_THAT(queue.take(kStart, kWall, kWho).value_or(""), HasSubstr(to));
    queue.delivered(kStart);
  }
}

TEST(AlertBoard, SendsAgainWhatFiresBeforeAlertmanagerForgetsIt) {
  AlertBoard board(60s, 10);
  board.add(urgent(State::kBegun), kStart);
  EXPECT_EQ(board.take(kStart, kWall, kWho),
            R"([{"labels":{"alertname":"GradusUrgent","severity":"critical","model":"m",)"
            R"("version":"2","level":"3","instance":"host:8000"},"annotations":{"summary":)"
            R"("model 'm': the last level answers: minimum service","description":"t"},)"
            R"("startsAt":"2023-11-14T22:13:20.000000Z","endsAt":"2023-11-14T22:17:20.000000Z"}])");
  board.delivered(kStart);
  EXPECT_EQ(board.due(), kStart + 60s);
  EXPECT_EQ(board.take(kStart + 59s, kWall + 59s, kWho), std::nullopt);
  const auto again = board.take(kStart + 60s, kWall + 60s, kWho);
  EXPECT_THAT(again.value_or(""), AllOf(HasSubstr("\"startsAt\":\"2023-11-14T22:13:20"),
                                        HasSubstr("\"endsAt\":\"2023-11-14T22:18:20")));
  board.delivered(kStart + 60s);
  EXPECT_EQ(board.counters().sent, 1U) << "events, not repetitions";
}

TEST(AlertBoard, SendsTheEndUntilItIsTakenAndThenNoMore) {
  AlertBoard board(60s, 10);
  board.add(urgent(State::kBegun), kStart);
  ASSERT_TRUE(board.take(kStart, kWall, kWho));
  board.add(urgent(State::kEnded, kWall + 5s), kStart + 5s);  // while the begin is on its way
  board.delivered(kStart + 6s);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(board.take(kStart + 6s, kWall + 6s, kWho).value_or(""),
                AllOf(HasSubstr("\"startsAt\":\"2023-11-14T22:13:20"),
                      HasSubstr("\"endsAt\":\"2023-11-14T22:13:25")));
  }
  board.delivered(kStart + 7s);
  EXPECT_EQ(board.due(), TimePoint::max());
  EXPECT_EQ(board.counters().sent, 2U);
}

TEST(AlertBoard, TheEndOfOneVersionLeavesAnotherFiring) {
  AlertBoard board(60s, 10);
  Event other = urgent(State::kBegun);
  other.version = "1";
  board.add(urgent(State::kBegun), kStart);
  board.add(other, kStart);
  ASSERT_TRUE(board.take(kStart, kWall, kWho));
  board.delivered(kStart);
  other.state = State::kEnded;
  board.add(other, kStart + 1s);
  EXPECT_THAT(board.take(kStart + 1s, kWall + 1s, kWho).value_or(""),
              AllOf(HasSubstr("\"version\":\"1\""), Not(HasSubstr("\"version\":\"2\""))));
  board.delivered(kStart + 1s);
  EXPECT_THAT(board.take(kStart + 60s, kWall + 60s, kWho).value_or(""),
              HasSubstr("\"version\":\"2\""));
}

TEST(AlertBoard, IsBoundedAndTellsHowThingsStandNow) {
  AlertBoard board(60s, 2);
  board.add(moved(1), kStart);
  board.add(urgent(State::kBegun), kStart);
  board.add(urgent(State::kEnded), kStart);
  board.add(urgent(State::kBegun), kStart);
  EXPECT_EQ(board.counters().waiting, 4U);
  board.add(moved(2), kStart);
  EXPECT_EQ(board.counters().dropped, 1U);
  const std::string body = board.take(kStart, kWall, kWho).value_or("");
  EXPECT_THAT(body, AllOf(HasSubstr("\"to\":\"2\""), Not(HasSubstr("\"to\":\"1\"")),
                          HasSubstr("\"endsAt\":\"2023-11-14T22:17:20")));
  board.delivered(kStart);
  EXPECT_EQ(board.counters().sent, 4U);
}

Receiver receiver() {
  return Receiver("webhook", "http://h", std::make_unique<WebhookQueue>(kWall, 10));
}

TEST(Receiver, WaitsLongerAfterEachFailureAndTellsOfTheFirstAlone) {
  Receiver webhook = receiver();
  webhook.add(moved(1), kStart);
  TimePoint now = kStart;
  const Duration waits[] = {500ms, 1s, 2s, 4s, 8s, 16s, 30s, 30s};
  for (std::size_t i = 0; i < std::size(waits); ++i) {
    ASSERT_TRUE(webhook.next_post(now, kWall, kWho)) << i;
    EXPECT_EQ(webhook.next_post(now, kWall, kWho), std::nullopt) << "one at a time";
    const auto change = webhook.answered(i % 2 == 0 ? 0 : 503, now, 0.5);
    EXPECT_EQ(change, i == 0 ? Receiver::Change::kUnreachable : Receiver::Change::kNone);
    EXPECT_EQ(webhook.due(), now + waits[i]);
    EXPECT_EQ(webhook.next_post(now + waits[i] - 1ns, kWall, kWho), std::nullopt);
    now += waits[i];
  }
  ASSERT_TRUE(webhook.next_post(now, kWall, kWho));
  EXPECT_EQ(webhook.answered(204, now, 0.5), Receiver::Change::kReachable);
  EXPECT_EQ(webhook.counters().failed, 8U);
  EXPECT_EQ(webhook.counters().sent, 1U);
  webhook.add(moved(2), now);
  ASSERT_TRUE(webhook.next_post(now, kWall, kWho));
  webhook.answered(0, now, 0);
  EXPECT_EQ(webhook.due(), now + 375ms) << "anew from the shortest, a quarter less by chance";
}

TEST(Receiver, GivesUpWhatIsRefusedForItsContentAlone) {
  for (const auto& [status, dropped] : {std::pair{400L, 1U}, {404L, 0U}, {429L, 0U}, {302L, 0U}}) {
    Receiver webhook = receiver();
    webhook.add(moved(1), kStart);
    ASSERT_TRUE(webhook.next_post(kStart, kWall, kWho));
    webhook.answered(status, kStart, 0.5);
    EXPECT_EQ(webhook.counters().dropped, dropped) << status;
    EXPECT_EQ(webhook.counters().waiting, 1 - dropped) << status;
  }
}

TEST(Receiver, InAHurryTriesOnceMoreAtOnceAndNotAfterAFailure) {
  Receiver webhook = receiver();
  webhook.add(moved(1), kStart);
  ASSERT_TRUE(webhook.next_post(kStart, kWall, kWho));
  webhook.answered(0, kStart, 0.5);
  webhook.hurry();
  EXPECT_FALSE(webhook.done());
  ASSERT_TRUE(webhook.next_post(kStart, kWall, kWho));
  EXPECT_FALSE(webhook.done()) << "an answer may come";
  webhook.answered(0, kStart, 0.5);
  EXPECT_TRUE(webhook.done());
  EXPECT_EQ(webhook.due(), TimePoint::max());
}

TEST(Alerts, ARefusedConnectionCostsTheTellersNothing) {
  config::AlertsConfig config;
  config.alertmanager_url = config.webhook_url = "http://127.0.0.1:1";  // nobody listens there
  Alerts alerts(config, steady_clock(), 1);
  alerts.tell(urgent(State::kBegun));
  alerts.start(kWho);
  {
    std::vector<std::jthread> tellers;
    for (int i = 0; i < 4; ++i) {
      tellers.emplace_back([&alerts, i] { alerts.tell(moved(i)); });
    }
  }
  const auto one_failed = [&alerts] {
    const auto all = alerts.counters();
    return std::ranges::all_of(all, [](const auto& of) { return of.counters.failed > 0; });
  };
  const TimePoint limit = steady_clock().now() + 20s;
  while (!one_failed() && steady_clock().now() < limit) std::this_thread::yield();
  alerts.stop(20s);
  EXPECT_LT(steady_clock().now(), limit);
  const auto all = alerts.counters();
  ASSERT_EQ(all.size(), 2U);
  for (const ReceiverCounters& of : all) {
    EXPECT_EQ(of.counters.waiting, 5U) << of.receiver;
    EXPECT_EQ(of.counters.sent + of.counters.dropped, 0U) << of.receiver;
    EXPECT_GE(of.counters.failed, 1U) << of.receiver;
  }
}

}  // namespace
}  // namespace gradus::alerts
