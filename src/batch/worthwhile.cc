#include "batch/worthwhile.h"

#include <algorithm>

namespace gradus::batch {
namespace {

double share(const Measured& size) { return to_ms(size.run) / size.samples; }

}  // namespace

std::uint32_t worthwhile_size(std::span<const Measured> sizes, std::uint32_t most) {
  if (sizes.size() < 2) return std::min(2U, most);
  const double best = share(*std::ranges::min_element(sizes, {}, share));
  if (best > kGain * share(sizes.front())) return 1;
  const auto chosen = std::ranges::find_if(
      sizes, [best](const Measured& size) { return share(size) <= kAsGood * best; });
  const bool more_to_learn = chosen + 1 == sizes.end();
  return std::min(more_to_learn ? 2 * chosen->samples : chosen->samples, most);
}

}  // namespace gradus::batch
