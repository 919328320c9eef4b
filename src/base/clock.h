// Time comes from outside: code that waits or stamps is given a Clock, tests give one that moves
// only when told. This folder alone calls a std clock's now().
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace gradus {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

struct Clock {
  virtual ~Clock() = default;
  /// Monotonic; for intervals and deadlines. Any thread.
  virtual TimePoint now() const = 0;
};

/// The machine's steady clock; lives for the whole process.
const Clock& steady_clock();

/// Wall time, only to show to people.
WallTime wall_now();

/// `2026-11-29T15:04:05.123456Z`.
std::string iso8601(WallTime at);

constexpr double to_ms(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
constexpr std::int64_t to_us(Duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace gradus
