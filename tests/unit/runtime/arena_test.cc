// Memory after a burst, and the rule that decides when it is given back.
#include <gtest/gtest.h>

#include <fstream>

#include "fixture.h"
#include "runtime/ort/shrink_rule.h"

namespace gradus::runtime {
namespace {

TEST(ShrinkRule, ShrinksOnceAfterARowOfSmallRuns) {
  ShrinkRule rule;
  EXPECT_FALSE(rule.should_shrink(64 << 20));
  int shrunk_at = 0;
  for (int i = 1; i <= 1000; ++i) {
    if (!rule.should_shrink(1024)) continue;
    EXPECT_EQ(shrunk_at, 0) << "once";
    shrunk_at = i;
  }
  EXPECT_EQ(shrunk_at, static_cast<int>(ShrinkRule::kSmallRuns));
}

TEST(ShrinkRule, LeavesEvenAndMixedTrafficAlone) {
  ShrinkRule even;
  ShrinkRule mixed;
  ShrinkRule tiny;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_FALSE(even.should_shrink(4 << 20));
    EXPECT_FALSE(mixed.should_shrink(i % 50 == 0 ? 4 << 20 : 1024)) << "a large run every 50";
    EXPECT_FALSE(tiny.should_shrink(i == 0 ? 100'000 : 10)) << "too small to matter";
  }
}

long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long total = 0;
  long resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST(Arena, IsGivenBackAfterABurst) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory";
  const auto backend = load_cpu(own_model("burst.onnx"));
  const std::vector<float> small(256, 4.0F);
  const auto run_small = [&] {
    const auto answer = run_all(*backend, {view(DType::kFp32, {256}, small)});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(values_of<float>(answer->at(0))[255], 6.0F);
  };
  for (int i = 0; i < 100; ++i) run_small();
  const long before = resident_bytes();
  {
    const std::vector<float> large(16 << 20, 9.0F);
    const auto answer = run_all(*backend, {view(DType::kFp32, {16 << 20}, large)});
    ASSERT_TRUE(answer) << answer.error().message;
  }
  const long burst = resident_bytes();
  EXPECT_GT(burst, before + (60 << 20)) << "else there is nothing to give back";
  for (int i = 0; i < 1000; ++i) run_small();
  EXPECT_LT(static_cast<double>(resident_bytes()), 1.3 * static_cast<double>(before));
  RecordProperty("rss_before", static_cast<int>(before >> 10));
  RecordProperty("rss_burst", static_cast<int>(burst >> 10));
}

TEST(Arena, ABurstOfAnotherShapeFailsNoLaterRun) {
  const auto backend = load_cpu(demo("models/langid/1/model.small.onnx"));
  const auto run = [&](std::int64_t rows) {
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(rows * 32), 1);
    return run_all(*backend,
                   {view(DType::kInt64, {rows, 32}, ones), view(DType::kInt64, {rows, 32}, ones)});
  };
  const auto large = run(1024);
  ASSERT_TRUE(large) << large.error().message;
  for (std::uint32_t i = 0; i < 2 * ShrinkRule::kSmallRuns; ++i) {
    const auto small = run(1);
    ASSERT_TRUE(small) << small.error().message;
    ASSERT_EQ(small->at(0).shape, (Shape{1, 8}));
  }
}

}  // namespace
}  // namespace gradus::runtime
