// Memory that a CUDA session copies from and to is registered with the provider's own library.
#include "worker/pinned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "started.h"

namespace gradus::worker {
namespace {

using testing::ElementsAre;

// What the library had counted when the run was made: read-only, others, ended, mistakes.
class PinnedMemory : public testing::Test {
 protected:
  PinnedMemory() : started_(with(pool_), "cuda") {}
  static Worker::Options with(const SharedPool& pool) {
    Worker::Options options = child();
    options.pool = &pool;
    return options;
  }
  std::vector<float> counts(std::size_t values, float first = 0) {
    std::vector<float> input(values);
    input.at(0) = first;
    return floats(started_.run(input).value().at(0));
  }

  SharedPool pool_{SharedPool::Options{}};
  Started started_;
};

TEST_F(PinnedMemory, IsRegisteredFromItsSecondUseAndBeforeItIsUnmappedEnded) {
  EXPECT_THAT(counts(8), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(counts(8), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(counts(8), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(counts(1'000'000), ElementsAre(0, 1, 1, 0));  // a larger slot
  EXPECT_THAT(counts(1'000'000), ElementsAre(1, 1, 1, 0));
}

TEST_F(PinnedMemory, OfAPoolIsRegisteredAsFarAsInputsReach) {
  const PoolBuffer buffer = pool_.acquire(std::size_t{1} << 20);
  const auto run = [&](std::size_t values) {
    return floats(started_.run_in(buffer, std::vector<float>(values)).value().at(0));
  };
  EXPECT_THAT(run(8), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(run(8), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(run(1000), ElementsAre(1, 1, 0, 0));     // within the same step
  EXPECT_THAT(run(200'000), ElementsAre(1, 1, 1, 0));  // again, longer
}

TEST_F(PinnedMemory, ThatTheLibraryRefusesIsUsedAsItIs) {
  EXPECT_THAT(counts(8, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(counts(8, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(counts(8, 1), ElementsAre(0, 0, 0, 0));
}

TEST(Pinned, IsNothingWhereNoProviderHasLoadedCuda) {
  const std::vector<std::byte> memory(4096);
  EXPECT_TRUE(Pinned(memory, Pinned::Access::kRead).memory().empty());
}

TEST(Pinned, IsForProvidersThatUseCudasOwnRuntime) {
  EXPECT_TRUE(copies_with_cuda("CUDAExecutionProvider"));
  EXPECT_TRUE(copies_with_cuda("TensorrtExecutionProvider"));
  EXPECT_FALSE(copies_with_cuda("WebGpuExecutionProvider"));
  EXPECT_FALSE(copies_with_cuda("CPUExecutionProvider"));
}

}  // namespace
}  // namespace gradus::worker
