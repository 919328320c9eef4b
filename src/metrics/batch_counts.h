// How many runs a level made of each size, and where their time went. All that is ever needed is
// allocated at once, so that counting is four additions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "metrics/histogram.h"

namespace gradus::metrics {

/// Where the time of a run went.
struct RunTimes {
  Duration input{};   // joining its requests' tensors
  Duration infer{};   // in the backend
  Duration output{};  // giving each request its own
};

/// Any thread.
class BatchCounts {
 public:
  struct OfSize {
    Counter runs;
    Counter input_ns;
    Counter infer_ns;
    Counter output_ns;
  };

  /// @param most samples in a run, >= 1
  explicit BatchCounts(std::uint32_t most) : sizes_(most) {}

  /// A request of more samples than a run may have was run in parts, of which each had its share of
  /// the time.
  void add(std::uint32_t samples, const RunTimes& times) {
    const auto most = static_cast<std::uint32_t>(sizes_.size());
    if (samples == 0) return;  // it has no size
    if (samples <= most) return add_to(samples, 1, times);
    const std::uint32_t rest = samples % most;
    const auto share = [&](std::uint32_t of) {
      const auto part = [&](Duration time) { return time * of / samples; };
      return RunTimes{part(times.input), part(times.infer), part(times.output)};
    };
    add_to(most, samples / most, share(samples - rest));
    if (rest > 0) add_to(rest, 1, share(rest));
  }

  std::uint32_t most() const { return static_cast<std::uint32_t>(sizes_.size()); }
  /// @param samples in [1, most()]
  const OfSize& of(std::uint32_t samples) const { return sizes_[samples - 1]; }

 private:
  void add_to(std::uint32_t samples, std::uint32_t runs, const RunTimes& times) {
    const auto ns = [](Duration time) {
      return static_cast<std::uint64_t>(std::max(Duration{}, time).count());
    };
    OfSize& size = sizes_[samples - 1];
    size.runs.add(runs);
    size.input_ns.add(ns(times.input));
    size.infer_ns.add(ns(times.infer));
    size.output_ns.add(ns(times.output));
  }

  std::vector<OfSize> sizes_;  // never resized
};

}  // namespace gradus::metrics
