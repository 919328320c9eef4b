// When an answer was sent, for whoever wants to know: who writes it fills this in and lets it go.
#pragma once
#include "base/clock.h"

namespace gradus::api {

struct SendTimes {
  TimePoint begun{};  // none: nothing was written
  TimePoint ended{};  // none: not to its end
};

}  // namespace gradus::api
