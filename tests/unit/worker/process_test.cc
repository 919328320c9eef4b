#include "worker/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "started.h"

namespace gradus::worker {
namespace {

std::unique_ptr<Process> started(const std::string& mode) {
  auto [here, there] = Socket::pair().value();
  return Process::spawn("/proc/self/exe", {mode}, std::move(there)).value();
}

TEST(Process, ThatLivesIsNotEnding) {
  auto [here, there] = Socket::pair().value();
  const auto process = Process::spawn("/proc/self/exe", {"worker"}, std::move(there)).value();
  EXPECT_FALSE(process->ending());
  EXPECT_FALSE(process->death());
}

TEST(Process, IsEndingBeforeItIsDead) {
  const auto process = started("half");
  ASSERT_TRUE(within(kLong, [&] { return process->ending().has_value(); }));
  EXPECT_FALSE(process->wait_dead(Duration::zero()));
  EXPECT_THAT(*process->ending(), testing::HasSubstr("exited with 0"));
}

TEST(Process, ThatWasKilledSaysSo) {
  const auto process = started("half");
  process->kill();
  ASSERT_TRUE(process->wait_dead(kLong));
  EXPECT_EQ(*process->death(), "was killed by signal 9");
  EXPECT_EQ(*process->ending(), "was killed by signal 9");
}

}  // namespace
}  // namespace gradus::worker
