// Memory for what requests bring in: bodies, and batches joined from them. Large blocks are memfds,
// so that a worker can map them and read its inputs where they arrived; a smaller one is plain
// memory. Fresh memory is dear (each page that is touched first costs a fault), so blocks are kept
// and used again; and a client that only announces a large body costs nothing, because a block is
// address space until bytes arrive in it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace gradus::worker {

struct PoolBuffer {
  std::byte* data = nullptr;
  std::size_t capacity = 0;     // at least what was asked for
  std::shared_ptr<void> owner;  // gives the memory back to the pool; null: there was none
};

/// Any thread. Buffers may outlive the pool.
class SharedPool {
 public:
  struct Options {
    std::size_t keep_bytes = 256 << 20;  // resident bytes that unused blocks may hold together
    bool shared = true;                  // false: no worker will ever read from it
  };
  explicit SharedPool(const Options& options);

  /// A buffer of at least `size` bytes, uninitialized, aligned to 64, size > 0. From 64 KiB on it
  /// is a block of a power of two, resident only as far as it was ever written, and shared unless
  /// the system, or this process's limit of open files, has no room for its descriptor. `owner` is
  /// null when the system has no address space left.
  PoolBuffer acquire(std::size_t size);

  /// Where bytes lie in a shared block.
  struct Place {
    std::uint64_t block = 0;     // never used again for another block
    int fd = -1;                 // the block's memfd; whoever else has it can only read
    std::uint64_t offset = 0;    // of the bytes
    std::shared_ptr<void> hold;  // another owner: while it lives the block is not used again
  };
  /// Nothing: they do not lie in one shared block that somebody owns. Takes tens of nanoseconds.
  std::optional<Place> find(std::span<const std::byte> bytes) const;

  /// Grows whenever a shared block goes back to the system; then some has() became false.
  std::uint64_t gone() const;
  bool has(std::uint64_t block) const;

  /// Gives blocks that nobody needed since the last call back to the system.
  void trim();

  /// Resident bytes that unused blocks hold at most.
  std::size_t kept_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gradus::worker
