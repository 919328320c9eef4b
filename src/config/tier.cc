#include "config/tier.h"

namespace gradus::config {

std::optional<Tier> tier_named(std::string_view name) {
  if (name == "realtime") return Tier::kRealtime;
  if (name == "standard") return Tier::kStandard;
  if (name == "batch") return Tier::kBatch;
  return std::nullopt;
}

Tier tier_of_priority(std::uint64_t priority, std::uint32_t levels) {
  if (priority == 0) return Tier::kStandard;
  if (levels == 0) {
    return priority == 1 ? Tier::kRealtime : priority == 2 ? Tier::kStandard : Tier::kBatch;
  }
  const std::uint64_t better = 3 * (priority - 1);
  if (better < levels) return Tier::kRealtime;
  return better < 2 * std::uint64_t{levels} ? Tier::kStandard : Tier::kBatch;
}

}  // namespace gradus::config
