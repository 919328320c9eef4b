// How long requests wait for a run, and how many of them, by their priority: Triton's queue
// policies.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>

namespace gradus::config {

enum class TimeoutAction {
  kReject,  // the timeout is a deadline
  kDelay,   // from then on the request waits behind those of its tier that are in time
};

struct QueuePolicy {
  std::chrono::microseconds timeout{0};  // from arrival, 0..24 h; 0: none
  TimeoutAction timeout_action = TimeoutAction::kReject;
  bool allow_timeout_override = true;  // a request's own `timeout` counts where it is the shorter
  std::uint32_t max_queue_size = 0;    // waiting for one level, 0..1'000'000; 0: the level's bound
  bool operator==(const QueuePolicy&) const = default;
};

struct QueuePolicies {
  QueuePolicy usual;
  std::map<std::uint64_t, QueuePolicy> by_priority;  // 1..1'000'000

  const QueuePolicy& of(std::uint64_t priority) const {
    const auto own = by_priority.find(priority);
    return own == by_priority.end() ? usual : own->second;
  }
  bool operator==(const QueuePolicies&) const = default;
};

}  // namespace gradus::config
