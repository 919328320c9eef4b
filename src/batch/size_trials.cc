#include "batch/size_trials.h"

#include <algorithm>

namespace gradus::batch {

bool SizeTrials::took(std::uint32_t samples, std::uint32_t in_use, std::uint32_t largest) {
  if (trial_ != 0) {
    const bool is_trial = samples == trial_ && samples != in_use;
    trial_ = 0;
    batches_ = 0;
    return is_trial;
  }
  if (++batches_ < (rounds_ <= kOften ? kOftenEvery : kSeldomEvery)) return false;
  const std::uint32_t most = std::min(largest, 2 * in_use);
  const auto next = [&](std::uint32_t size) {
    if (size > 0 && 2 * size <= most) return 2 * size;
    ++rounds_;
    return 1U;
  };
  last_ = next(last_);
  if (last_ == in_use) last_ = next(last_);
  if (last_ != in_use) trial_ = last_;
  return false;
}

}  // namespace gradus::batch
