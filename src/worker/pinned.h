// Host memory that the CUDA driver can copy from and to by itself, several times faster than from
// ordinary pages, which it copies to its own first.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gradus::worker {

/// True where the provider, by its ONNX Runtime name, copies through the CUDA runtime library.
bool copies_with_cuda(std::string_view provider);

/// One registration of memory with the CUDA runtime library that a provider has loaded in this
/// process (cudaHostRegister). Never an error: where there is no such library, or it refuses, the
/// memory stays ordinary; the first refusal is logged at debug.
class Pinned {
 public:
  enum class Access { kRead, kWrite };  // what this process may do there

  Pinned() = default;
  /// @param memory page-aligned; must stay mapped until this ends. Its pages become resident.
  Pinned(std::span<const std::byte> memory, Access access);
  ~Pinned();
  Pinned(Pinned&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }

  /// What is registered; empty: nothing.
  std::span<const std::byte> memory() const { return memory_; }

 private:
  std::span<const std::byte> memory_;
};

}  // namespace gradus::worker
