// When a session gives the memory of a burst back. ONNX Runtime keeps what its largest run needed;
// after one unusually large request that memory would lie idle for ever. Giving it back costs the
// next large run its page faults, so only a row of small runs shows that the burst is over.
#pragma once
#include <atomic>
#include <cstdint>

namespace gradus::runtime {

class ShrinkRule {
 public:
  static constexpr std::uint64_t kLargeBytes = 256 << 10;  // inputs below this are no burst
  static constexpr std::uint64_t kFactor = 8;              // small: so much less than the largest
  static constexpr std::uint32_t kSmallRuns = 64;          // in a row

  /// Tells of a run and how many bytes its inputs have; true when this run shall shrink the arena.
  /// Any thread; runs that race may count once more or less, which moves the moment by a few runs.
  bool should_shrink(std::uint64_t input_bytes) {
    const std::uint64_t largest = largest_.load(std::memory_order_relaxed);
    if (input_bytes > largest) largest_.store(input_bytes, std::memory_order_relaxed);
    if (largest < kLargeBytes || input_bytes > largest / kFactor) {
      if (small_runs_.load(std::memory_order_relaxed) != 0) {
        small_runs_.store(0, std::memory_order_relaxed);
      }
      return false;
    }
    if (small_runs_.fetch_add(1, std::memory_order_relaxed) + 1 != kSmallRuns) return false;
    small_runs_.store(0, std::memory_order_relaxed);
    largest_.store(input_bytes, std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<std::uint64_t> largest_{0};  // input bytes, since the arena was last shrunk
  std::atomic<std::uint32_t> small_runs_{0};
};

}  // namespace gradus::runtime
