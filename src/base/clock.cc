#include "base/clock.h"

#include <cstdio>
#include <ctime>

namespace gradus {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

std::string iso8601(WallTime at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  const auto micros = at.time_since_epoch().count() % 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof text - length, ".%06dZ", static_cast<int>(micros));
  return text;
}

}  // namespace gradus
