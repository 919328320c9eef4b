#include "serving/time_limits.h"

#include <gtest/gtest.h>

#include <optional>

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;
using config::TimeoutAction;

constexpr auto kNone = TimePoint::max();

struct Case {
  const char* what;
  config::QueuePolicy policy;
  std::optional<Duration> timeout;         // the request's own …
  std::optional<Duration> client_timeout;  // … and its call's
  Duration deadline;
  std::optional<Duration> due;
};

TEST(TimeLimits, AreTheShortestOfWhatPolicyRequestAndCallSay) {
  constexpr auto kReject = TimeoutAction::kReject;
  constexpr auto kDelay = TimeoutAction::kDelay;
  const Case cases[] = {
      {"nothing is said", {}, {}, {}, 10s, {}},
      {"the request's timeout may be the longer", {}, 20s, {}, 20s, {}},
      {"so may the call's", {}, {}, 20s, 20s, {}},
      {"of both the shorter counts", {}, 3s, 4s, 3s, {}},
      {"whichever it is", {}, 4s, 3s, 3s, {}},
      {"the policy's", {.timeout = 5s}, {}, {}, 5s, {}},
      {"a request may shorten it", {.timeout = 5s}, 4s, {}, 4s, {}},
      {"but not lengthen it", {.timeout = 5s}, 6s, {}, 5s, {}},
      {"nor may its call", {.timeout = 5s}, {}, 6s, 5s, {}},
      {"an override that is not allowed",
       {.timeout = 5s, .timeout_action = kReject, .allow_timeout_override = false},
       4s,
       {},
       5s,
       {}},
      {"the call's is none", {.timeout = 5s, .allow_timeout_override = false}, 4s, 3s, 3s, {}},
      {"no timeout, no override", {.allow_timeout_override = false}, 4s, {}, 10s, {}},
      {"a delay is no deadline", {.timeout = 5s, .timeout_action = kDelay}, {}, {}, 10s, 5s},
      {"a request's own is one as well",
       {.timeout = 5s, .timeout_action = kDelay},
       4s,
       {},
       10s,
       4s},
      {"even without another", {.timeout_action = kDelay}, 4s, {}, 10s, 4s},
      {"the call's stays a deadline", {.timeout = 5s, .timeout_action = kDelay}, 4s, 3s, 3s, 4s},
      {"a delay that may not be overridden",
       {.timeout = 5s, .timeout_action = kDelay, .allow_timeout_override = false},
       4s,
       {},
       10s,
       5s},
  };
  for (const Case& one : cases) {
    config::ModelConfig config;
    config.queue_policies.by_priority[2] = one.policy;
    Request request;
    request.arrival = TimePoint(100s);
    request.timeout = one.timeout;
    request.client_timeout = one.client_timeout;
    request.priority = 2;
    const TimeLimits limits = time_limits(request, config);
    EXPECT_EQ(limits.deadline, request.arrival + one.deadline) << one.what;
    EXPECT_EQ(limits.due, one.due ? request.arrival + *one.due : kNone) << one.what;
  }
}

TEST(TimeLimits, AreThoseOfTheDefaultPolicyForPrioritiesWithoutTheirOwn) {
  config::ModelConfig config;
  config.queue_policies = {.usual = {.timeout = 5s}, .by_priority = {{2, {.timeout = 4s}}}};
  Request request;
  for (const auto& [priority, deadline] : {std::pair(0, 5s), std::pair(1, 5s), std::pair(2, 4s)}) {
    request.priority = static_cast<std::uint64_t>(priority);
    EXPECT_EQ(time_limits(request, config).deadline, request.arrival + deadline) << priority;
  }
}

}  // namespace
}  // namespace gradus::serving
