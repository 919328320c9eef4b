// A waiting request with a number to know it by.
#pragma once
#include <vector>

#include "batch/queue.h"

namespace gradus::batch {

struct Item : Entry {
  explicit Item(int number, config::Tier of = config::Tier::kStandard,
                TimePoint until = TimePoint::max())
      : id(number) {
    tier = of;
    deadline = until;
    group = 1;
  }
  const int id;
};

inline std::vector<int> ids(const std::vector<Entry*>& entries) {
  std::vector<int> ids;
  for (const Entry* entry : entries) ids.push_back(static_cast<const Item*>(entry)->id);
  return ids;
}

inline std::vector<int> order(Queue& queue, TimePoint now) {
  std::vector<int> ids;
  for (const Entry& entry : queue.in_order(now)) ids.push_back(static_cast<const Item&>(entry).id);
  return ids;
}

inline TimePoint at(Duration since_zero) { return TimePoint(since_zero); }

}  // namespace gradus::batch
