#include <charconv>
#include <string>

#include "config/tables.h"

namespace gradus::config {
namespace {

constexpr const char* kUsual = "default";
constexpr std::uint64_t kMostPriorities = 1'000'000;

/// 0: the key names none.
std::uint64_t priority_of(const std::string& key) {
  std::uint64_t priority = 0;
  std::from_chars(key.data(), key.data() + key.size(), priority);
  return priority <= kMostPriorities && std::to_string(priority) == key ? priority : 0;
}

}  // namespace

const Fields<QueuePolicy>& queue_policy_fields() {
  using P = QueuePolicy;
  static const Fields<P> fields = {
      microseconds("timeout_us", &P::timeout, 0, 86'400'000'000,
                   "the longest that a request may wait, from its arrival; 0: until its deadline"),
      choice<P, TimeoutAction>(
          "timeout_action", &P::timeout_action,
          {{"reject", TimeoutAction::kReject}, {"delay", TimeoutAction::kDelay}},
          "`reject`: the timeout is a deadline of the request; `delay`: from then on it lets "
          "others of its tier go first ([batching.md](batching.md))"),
      boolean("allow_timeout_override", &P::allow_timeout_override,
              "the parameter `timeout` of a request takes the timeout's place if it is shorter; "
              "false: it is not looked at"),
      integer("max_queue_size", &P::max_queue_size, 0, 1'000'000,
              "requests of one priority that wait for one level; 0: no bound beside the level's"),
  };
  return fields;
}

void read_queue_policies(const Value& value, Reader& reader, QueuePolicies& out) {
  if (value.kind != Value::Kind::kMap && value.kind != Value::Kind::kNull) {
    reader.refuse(value, std::string("must be ") + kQueuePolicies);
    return;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string& key = value.keys[i];
    const std::uint64_t priority = priority_of(key);
    if (key != kUsual && priority == 0) {
      reader.fault(key, "must be `default` or a priority in [1, 1000000]");
      continue;
    }
    const Reader::Step step(reader, key);
    QueuePolicy& policy = priority == 0 ? out.usual : out.by_priority[priority];
    read_fields(value.items[i], queue_policy_fields(), reader, policy);
  }
}

Value show_queue_policies(const QueuePolicies& policies) {
  Value map = Value::map();
  map.add(kUsual, show_fields(queue_policy_fields(), policies.usual));
  for (const auto& [priority, policy] : policies.by_priority) {
    map.add(std::to_string(priority), show_fields(queue_policy_fields(), policy));
  }
  return map;
}

}  // namespace gradus::config
