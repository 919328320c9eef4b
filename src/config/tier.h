// A request's priority class, and the ways in which clients name it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gradus::config {

/// Better ones first. kBatch yields to the others and is the first to be refused.
enum class Tier : std::uint8_t { kRealtime, kStandard, kBatch };

inline constexpr std::size_t kTiers = 3;

/// `realtime`, `standard`, `batch`; nothing: no tier of that name.
std::optional<Tier> tier_named(std::string_view name);

/// Of a model without `priority_levels`: those above mean the same.
inline constexpr std::uint64_t kLastPriority = 3;

/// What Triton's `priority` means: 0 is the default, kStandard, as is a priority in the middle; 1
/// is served first.
/// @param levels the model's `priority_levels`, of which the first third is kRealtime and the last
///   third kBatch; 0: 1 is kRealtime, 2 kStandard, all others kBatch
Tier tier_of_priority(std::uint64_t priority, std::uint32_t levels);

}  // namespace gradus::config
