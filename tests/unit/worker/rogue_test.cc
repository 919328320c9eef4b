// A child that says what it should not: it is refused, killed, and the server goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

class Rogue : public testing::TestWithParam<const char*> {};

TEST_P(Rogue, IsRefusedAndKilled) {
  const auto worker = Worker::start(child(std::string("rogue-") + GetParam())).value();
  const std::vector<float> values = {1};
  const auto answer =
      worker->run(1, std::vector{view_of(values)}, std::vector<std::size_t>{0}, 30s);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kWorkerLost);
  EXPECT_EQ(to_string(worker->loss()->cause), to_string(Loss::Cause::kProtocol))
      << answer.error().message;
  EXPECT_TRUE(worker->wait_dead(30s));
}

INSTANTIATE_TEST_SUITE_P(All, Rogue,
                         testing::Values("garbage", "truncated", "oversized", "id", "kind", "body",
                                         "offset", "overflow", "shape", "rank", "nosegment",
                                         "unsealed", "nomemory", "huge", "sparse", "spare", "few",
                                         "close", "code1", "code2", "code3", "code4", "code7"),
                         [](const auto& test) { return std::string(test.param); });

TEST(RoguePing, AnsweredWithSomethingElseIsNoHang) {
  const auto worker = Worker::start(child("rogue-pong")).value();
  EXPECT_FALSE(worker->ping(30s));
  EXPECT_EQ(worker->loss()->cause, Loss::Cause::kProtocol);
  EXPECT_THAT(worker->loss()->text, testing::HasSubstr("answered a ping with something else"));
  EXPECT_TRUE(worker->wait_dead(30s));
}

TEST(RogueHello, OfAnotherVersionIsRefused) {
  const auto worker = Worker::start(child("rogue-version"));
  ASSERT_FALSE(worker);
  EXPECT_THAT(worker.error().message, testing::HasSubstr("version test"));
}

}  // namespace
}  // namespace gradus::worker
