// A request's priority class.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gradus::config {

/// Better ones first. kBatch yields to the others and is the first to be refused.
enum class Tier : std::uint8_t { kRealtime, kStandard, kBatch };

inline constexpr std::size_t kTiers = 3;

}  // namespace gradus::config
