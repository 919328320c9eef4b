// Inputs that lie in the server's pool: the worker reads them there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "started.h"
#include "worker/channel.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 100'000;
const std::string kBlockName = "gradus-body";

class PoolInputs : public testing::Test {
 protected:
  Worker::Options options() {
    Worker::Options options = child();
    options.pool = &pool_;
    return options;
  }
  void expect_doubled(Started& started, const PoolBuffer& buffer, float value,
                      std::size_t offset = 0) {
    const auto answer = started.run_in(buffer, {value, value + 1}, offset);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(floats(answer->at(0)), (std::vector<float>{2 * value, 2 * value + 2}));
  }

  SharedPool pool_{SharedPool::Options{}};
};

TEST_F(PoolInputs, AreReadWhereTheyLie) {
  Started started(options());
  const PoolBuffer buffer = pool_.acquire(kSize);
  for (const float value : {1.F, 2.F, 3.F}) expect_doubled(started, buffer, value);
  EXPECT_EQ(started.worker->idle().slot_bytes, 0U);  // nothing was copied
  EXPECT_EQ(started.maps(kBlockName), 1U);           // and its descriptor came once
}

TEST_F(PoolInputs, NeedOnlyTheirElementsAlignment) {
  Started started(options());
  const PoolBuffer buffer = pool_.acquire(kSize);
  expect_doubled(started, buffer, 5, 4);
  EXPECT_EQ(started.worker->idle().slot_bytes, 0U);
}

TEST_F(PoolInputs, OfWrongAlignmentAreCopied) {
  Started started(options());
  const PoolBuffer buffer = pool_.acquire(kSize);
  expect_doubled(started, buffer, 5, 2);
  EXPECT_GT(started.worker->idle().slot_bytes, 0U);
}

TEST_F(PoolInputs, OutsideOfItAreCopied) {
  Started started(options());
  ASSERT_TRUE(started.run({1, 2}));
  EXPECT_GT(started.worker->idle().slot_bytes, 0U);
}

TEST_F(PoolInputs, OfManyBlocksKeepABoundedNumberMapped) {
  Started started(options());
  std::vector<PoolBuffer> buffers;
  for (std::size_t i = 0; i < 2 * kMostBlocks; ++i) buffers.push_back(pool_.acquire(kSize));
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      expect_doubled(started, buffers[i], static_cast<float>(i));
    }
  }
  EXPECT_EQ(started.worker->idle().slot_bytes, 0U);
  EXPECT_LE(started.maps(kBlockName), kMostBlocks);
}

TEST_F(PoolInputs, BlocksThatAreGoneAreUnmapped) {
  Started started(options());
  {
    const std::vector<PoolBuffer> buffers = {pool_.acquire(kSize), pool_.acquire(kSize)};
    for (const PoolBuffer& buffer : buffers) expect_doubled(started, buffer, 1);
  }
  pool_.trim();
  pool_.trim();
  const PoolBuffer fresh = pool_.acquire(kSize);
  expect_doubled(started, fresh, 1);
  EXPECT_EQ(started.maps(kBlockName), 1U);
}

TEST_F(PoolInputs, ARunThatFailsLeavesTheWorkerFitForTheNext) {
  Started started(options());
  const PoolBuffer buffer = pool_.acquire(kSize);
  EXPECT_EQ(started.run_in(buffer, {kBlame}).error().code, Code::kInvalid);
  expect_doubled(started, buffer, 1);
}

TEST_F(PoolInputs, CanNotBeWrittenToByTheWorker) {
  Started started(options());
  const PoolBuffer buffer = pool_.acquire(kSize);
  const auto asked = started.run_in(buffer, {kUnlock});
  EXPECT_TRUE(asked) << asked.error().message;
  const auto tried = started.run_in(buffer, {kWriteInput});
  ASSERT_FALSE(tried);
  EXPECT_THAT(tried.error().message, testing::HasSubstr("was killed by signal 11"));
}

TEST_F(PoolInputs, OfALostWorkerAreNotUsedAgainBeforeItIsDead) {
  Worker::Options lasting = options();
  lasting.kill = [](int) {};
  Started started(lasting);
  PoolBuffer buffer = pool_.acquire(kSize);
  const std::byte* const where = buffer.data;
  const auto hung = started.run_in(buffer, {kSleep}, 0, 50ms);
  ASSERT_FALSE(hung);
  EXPECT_EQ(started.worker->loss()->cause, Loss::Cause::kHung);
  buffer.owner.reset();
  EXPECT_FALSE(started.worker->wait_dead(Duration::zero()));
  EXPECT_NE(pool_.acquire(kSize).data, where);
  kill(started.worker->pid(), SIGKILL);
  ASSERT_TRUE(started.worker->wait_dead(kLong));
  const PoolBuffer one = pool_.acquire(kSize);
  const PoolBuffer other = pool_.acquire(kSize);
  EXPECT_TRUE(one.data == where || other.data == where);
}

}  // namespace
}  // namespace gradus::worker
