#include "base/clock.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

using namespace std::chrono_literals;

TEST(Clock, WallTimeIsShownInUtcWithMicroseconds) {
  EXPECT_EQ(iso8601(WallTime(1'764'428'645'000'123us)), "2025-11-29T15:04:05.000123Z");
}

TEST(Clock, DurationsConvertToTheUnitsOfTheProtocol) {
  EXPECT_DOUBLE_EQ(to_ms(1500us), 1.5);
  EXPECT_EQ(to_us(2ms), 2000);
}

}  // namespace
}  // namespace gradus
