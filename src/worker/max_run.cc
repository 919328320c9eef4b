#include "worker/max_run.h"

#include <algorithm>

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstRun = 60s;
constexpr int kWarmUpRuns = 4;
constexpr std::size_t kMaxShapes = 4096;  // a new one beyond them is given a first run's time

}  // namespace

Duration max_run(Duration target, Duration slowest) {
  return std::max({10 * target, 10 * slowest, Duration(1s)});
}

Duration max_first_run(Duration target, std::optional<Duration> slowest) {
  return slowest ? std::min<Duration>(kFirstRun, max_run(target, *slowest)) : kFirstRun;
}

ShapeTimes::Times ShapeTimes::of(std::uint64_t shape) const {
  const auto found = times_.find(shape);
  return found == times_.end() ? Times{} : found->second;
}

void ShapeTimes::add(std::uint64_t shape, Duration run) {
  auto found = times_.find(shape);
  if (found == times_.end()) {
    if (times_.size() >= kMaxShapes) return;
    found = times_.emplace(shape, Times{}).first;
  }
  Times& times = found->second;
  if (times.runs >= kWarmUpRuns) return;
  if (++times.runs > 1) times.slowest = std::max(times.slowest, run);
}

}  // namespace gradus::worker
