#include "ladder/warmth.h"

#include <algorithm>

namespace gradus::ladder {
namespace {

constexpr std::size_t kMaxBuckets = 4096;  // clients choose shapes; memory stays bounded

}  // namespace

bool Warmth::note_run(std::uint64_t bucket, TimePoint begun, TimePoint ended,
                      const config::PolicyConfig& policy) {
  const bool awake = busy_until_ && begun - *busy_until_ < policy.idle_gap;
  note_busy(ended);
  if (runs_.size() >= kMaxBuckets && !runs_.contains(bucket)) runs_.clear();
  std::uint32_t& runs = runs_[bucket];
  if (runs >= policy.warm_runs_per_bucket) return awake;
  ++runs;
  return false;
}

void Warmth::note_busy(TimePoint ended) {
  busy_until_ = std::max(busy_until_.value_or(ended), ended);
}

void Warmth::forget() {
  runs_.clear();
  busy_until_.reset();
}

}  // namespace gradus::ladder
