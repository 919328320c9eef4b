#include "batch/worthwhile.h"

#include <algorithm>

namespace gradus::batch {
namespace {

double share(const Measured& size) { return to_ms(size.run) / size.samples; }

}  // namespace

JoinSize worthwhile_size(std::span<const Measured> sizes, std::uint32_t most) {
  if (sizes.size() < 2) return {};
  const double single = share(sizes.front());
  const double best = share(*std::ranges::min_element(sizes, {}, share));
  if (best > kGain * single) return {};
  const auto chosen = std::ranges::find_if(
      sizes, [best](const Measured& size) { return share(size) <= kAsGood * best; });
  const bool more_to_learn = chosen + 1 == sizes.end();
  return {std::min(more_to_learn ? 2 * chosen->samples : chosen->samples, most),
          share(*chosen) / single};
}

}  // namespace gradus::batch
