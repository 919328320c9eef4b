#include "worker/max_run.h"

#include <algorithm>

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstRun = 60s;
constexpr int kWarmUpRuns = 4;
constexpr int kPatience = 4;              // times what was too short, or the run before
constexpr std::size_t kMaxShapes = 4096;  // a new one beyond them is given a first run's time

Duration greatest(Duration target, Duration slowest) {
  return std::max({10 * target, 10 * slowest, Duration(1s)});
}

}  // namespace

ShapeTimes::Times ShapeTimes::of(std::uint64_t shape) const {
  const auto found = times_.find(shape);
  return found == times_.end() ? Times{} : found->second;
}

void ShapeTimes::add(std::uint64_t shape, Duration run) {
  auto found = times_.find(shape);
  if (found == times_.end()) {
    if (times_.size() >= kMaxShapes) return;
    found = times_.emplace(shape, Times{.first = run}).first;
  }
  Times& times = found->second;
  if (times.runs >= kWarmUpRuns) return;
  if (++times.runs > 1) times.slowest = std::max(times.slowest, run);
}

Duration max_run(Duration target, const ShapeTimes::Times& times) {
  const Duration limit = greatest(target, times.slowest);
  return times.runs == 1 ? std::max(limit, kPatience * times.first) : limit;
}

Duration FirstRuns::limit(Duration target, std::uint64_t shape, std::uint64_t bytes) const {
  if (!slowest_) return kFirstRun;
  if (shapes_.contains(shape)) return std::min(kFirstRun, greatest(target, *slowest_));
  const auto ran = static_cast<double>(std::max<std::uint64_t>(most_bytes_, 1));
  const double share = std::max(1.0, static_cast<double>(bytes) / ran);
  const auto expected = std::min<std::chrono::duration<double>>(kFirstRun, share * *slowest_);
  Duration limit = greatest(target, std::chrono::duration_cast<Duration>(expected));
  if (cut_ && bytes >= cut_->bytes) limit = std::max(limit, kPatience * cut_->limit);
  return std::min(kFirstRun, limit);
}

void FirstRuns::ended(std::uint64_t shape, std::uint64_t bytes, Duration run) {
  slowest_ = std::max(run, slowest_.value_or(run));
  most_bytes_ = std::max(most_bytes_, bytes);
  if (shapes_.contains(shape)) return;  // a fresh worker's: it says nothing of what was cut
  if (shapes_.size() < kMaxShapes) shapes_.insert(shape);
  if (cut_ && bytes >= cut_->bytes) cut_.reset();
}

void FirstRuns::cut(std::uint64_t shape, std::uint64_t bytes, Duration limit) {
  if (shapes_.contains(shape)) return;  // it is known what that one takes
  cut_ = cut_ ? Cut{std::min(bytes, cut_->bytes), std::max(limit, cut_->limit)} : Cut{bytes, limit};
}

}  // namespace gradus::worker
