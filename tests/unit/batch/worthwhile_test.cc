#include "batch/worthwhile.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gradus::batch {
namespace {

using namespace std::chrono_literals;

std::uint32_t size_of(std::vector<Measured> sizes, std::uint32_t most = 32) {
  return worthwhile_size(sizes, most).samples;
}

TEST(WorthwhileSize, JoinsNothingWhereABatchTakesAsLongAsItsSamples) {
  EXPECT_EQ(size_of({{1, 10ms}, {2, 20ms}, {4, 41ms}}), 1U);
  EXPECT_EQ(size_of({{1, 10ms}, {2, 19ms}}), 1U) << "a twentieth is not worth the wait";
}

TEST(WorthwhileSize, IsTheSmallestThatIsAboutAsGoodAsTheBest) {
  EXPECT_EQ(size_of({{1, 10ms}, {2, 12ms}, {4, 20ms}, {8, 39ms}, {16, 90ms}}), 4U);
}

TEST(WorthwhileSize, TellsWhatASampleThenTakes) {
  const std::vector<Measured> sizes = {{1, 10ms}, {2, 12ms}, {4, 20ms}, {8, 40ms}};
  EXPECT_DOUBLE_EQ(worthwhile_size(sizes, 32).share, 0.5);
  EXPECT_DOUBLE_EQ(worthwhile_size({}, 32).share, 1);
}

TEST(WorthwhileSize, IsTwiceTheLargestMeasuredIfThatWasTheBest) {
  EXPECT_EQ(size_of({{1, 10ms}, {2, 11ms}}), 4U);
  EXPECT_EQ(size_of({{1, 10ms}, {2, 11ms}}, 3), 3U) << "never over the most";
}

TEST(WorthwhileSize, JoinsNothingWhereNothingIsKnown) {
  EXPECT_EQ(size_of({{1, 10ms}}), 1U);
  EXPECT_EQ(size_of({}), 1U);
}

}  // namespace
}  // namespace gradus::batch
