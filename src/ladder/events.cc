#include "ladder/events.h"

#include <cstdlib>

namespace gradus::ladder {

const char* to_string(Cause cause) {
  switch (cause) {
    case Cause::kStarted:
      return "started";
    case Cause::kArrived:
      return "arrived";
    case Cause::kPromoted:
      return "promoted";
    case Cause::kReturned:
      return "returned";
    case Cause::kHardLoss:
      return "hard_loss";
    case Cause::kFailures:
      return "failures";
    case Cause::kErrorRate:
      return "error_rate";
    case Cause::kSlow:
      return "slow";
    case Cause::kOverload:
      return "overload";
    case Cause::kLeftOut:
      return "left_out";
    case Cause::kPinned:
      return "pinned";
  }
  std::abort();
}

}  // namespace gradus::ladder
