#include "serving/time_limits.h"

#include <algorithm>
#include <optional>

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

std::optional<Duration> shorter(std::optional<Duration> a, std::optional<Duration> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

}  // namespace

TimeLimits time_limits(const Request& request, const config::ModelConfig& config) {
  const config::QueuePolicy& policy = config.queue_policies.of(request.priority);
  std::optional<Duration> wait;
  if (policy.timeout > 0us) wait = policy.timeout;
  if (policy.allow_timeout_override) wait = shorter(wait, request.timeout);
  const auto after = [&](std::optional<Duration> time) {
    return request.arrival + time.value_or(config.default_timeout);
  };
  if (policy.timeout_action == config::TimeoutAction::kReject) {
    return {.deadline = after(shorter(wait, request.client_timeout))};
  }
  return {.deadline = after(request.client_timeout),
          .due = wait ? request.arrival + *wait : TimePoint::max()};
}

}  // namespace gradus::serving
