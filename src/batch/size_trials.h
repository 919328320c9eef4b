// Which batch is to measure another size than the one in use, so that the choice between them does
// not rest for ever on what runs took while the level was loaded: single runs would never be seen
// again where all are joined, nor joined ones where none are. One in nine does until each size has
// been seen a few times, then one in 65.
#pragma once
#include <cstdint>

namespace gradus::batch {

class SizeTrials {
 public:
  static constexpr std::uint32_t kOftenEvery = 8;  // batches, until as many trials of each size …
  static constexpr std::uint32_t kOften = 8;       // … as these are over
  static constexpr std::uint32_t kSeldomEvery = 64;  // batches, from then on

  /// Samples to join up to in the next batch.
  /// @param in_use the size that pays, as far as is known
  /// @param waiting samples: what is not there is not waited for
  std::uint32_t size(std::uint32_t in_use, std::uint64_t waiting) const {
    return trial_ != 0 && trial_ <= waiting ? trial_ : in_use;
  }

  /// A batch leaves the queue.
  /// Tried in turn are the powers of two up to twice the size in use, but for that one.
  /// @param largest power of two: none above it is tried
  /// @return it was a trial
  bool took(std::uint32_t samples, std::uint32_t in_use, std::uint32_t largest);

 private:
  std::uint32_t trial_ = 0;  // the size that is to be measured; 0: none at present
  std::uint32_t last_ = 0;
  std::uint32_t batches_ = 0;  // since the last trial
  std::uint32_t rounds_ = 0;   // through all sizes, begun
};

}  // namespace gradus::batch
