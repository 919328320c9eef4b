#include "ladder/breaker.h"

#include <cstdlib>

namespace gradus::ladder {

const char* to_string(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      return "half_open";
  }
  std::abort();
}

BreakerState Breaker::state(TimePoint at) const {
  if (!open_) return BreakerState::kClosed;
  return at >= half_open_at_ ? BreakerState::kHalfOpen : BreakerState::kOpen;
}

void Breaker::open(TimePoint at, Duration rest) {
  if (!open_) opened_at_ = at;
  open_ = true;
  half_open_at_ = next_trial_ = at + rest;
}

void Breaker::succeed(TimePoint begun) {
  if (open_ && begun >= opened_at_) open_ = false;
}

}  // namespace gradus::ladder
