// Until when a request may be answered and until when it should run, of what its client, its call
// and its priority's queue policy say.
#pragma once
#include "base/clock.h"
#include "config/model_config.h"
#include "serving/request.h"

namespace gradus::serving {

struct TimeLimits {
  TimePoint deadline{};              // then it is answered with an error
  TimePoint due = TimePoint::max();  // then it lets others of its tier go first
};

TimeLimits time_limits(const Request& request, const config::ModelConfig& config);

}  // namespace gradus::serving
