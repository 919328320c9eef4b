#include "tools/drill_timer.h"

#include <algorithm>

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTimer = 1ms;

}  // namespace

TimerDelay delay_of(std::vector<Duration>& late) {
  if (late.empty()) return {};
  std::ranges::sort(late);
  const auto at = [&late](double share) {
    return late[static_cast<std::size_t>(share * static_cast<double>(late.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.99), late.back()};
}

TimerWatch::TimerWatch()
    : thread_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const TimePoint due = steady_clock().now() + kTimer;
          std::this_thread::sleep_until(due);
          late_.push_back(steady_clock().now() - due);
        }
      }) {}

std::vector<Duration> TimerWatch::stop() {
  thread_.request_stop();
  thread_.join();
  return std::move(late_);
}

}  // namespace gradus::tools
