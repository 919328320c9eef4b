// How large a batch pays: some models do eight samples in the time of one, others in the time of
// eight, and those are better run one by one, on all instances.
#pragma once
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace gradus::batch {

/// Runs of all sizes took turns: what else went on must not tell them apart.
struct Measured {
  std::uint32_t samples = 1;
  Duration run{};  // the quickest of such a batch
};

inline constexpr double kGain = 0.9;  // a sample's share of a batch's time, beside a run of its own
inline constexpr double kAsGood = 1.05;  // of the best share: then the smaller batch

struct JoinSize {
  std::uint32_t samples = 1;
  double share = 1;  // of a run of its own, that a sample then takes; 1 where that is not known
};

/// The size to join up to: the smallest that is about as quick a sample as the best one, if that
/// saves a tenth; 1 if none does, or nothing is known. Where that is the largest one measured,
/// twice that will do as well.
/// @param sizes ascending, without gaps in powers of two from 1 on
/// @param most >= 1
JoinSize worthwhile_size(std::span<const Measured> sizes, std::uint32_t most);

/// What one of a level's instances takes of all samples that wait or run: who took more would leave
/// the others crumbs.
/// @param instances >= 1
constexpr std::uint64_t fair_share(std::uint64_t in_hand, std::uint32_t instances) {
  return (in_hand + instances - 1) / instances;
}

}  // namespace gradus::batch
