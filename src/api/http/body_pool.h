// Memory for request bodies. Fresh memory is dear (each page that is touched first costs a fault),
// so large buffers are kept and used again; and a client that only announces a large body costs
// nothing, because a buffer is address space until bytes arrive in it.
#pragma once
#include <cstddef>
#include <memory>

namespace gradus::api {

struct BodyBuffer {
  std::byte* data = nullptr;
  std::size_t capacity = 0;     // at least what was asked for
  std::shared_ptr<void> owner;  // gives the memory back to the pool; null: there was none
};

/// Any thread. Buffers may outlive the pool.
class BodyPool {
 public:
  /// @param keep_bytes resident bytes that unused buffers may hold together
  explicit BodyPool(std::size_t keep_bytes);

  /// A buffer of at least `size` bytes, uninitialized, aligned to 64, size > 0. Bytes above 32 KiB
  /// become resident only as they are written. `owner` is null when the system has no address space
  /// left.
  BodyBuffer acquire(std::size_t size);

  /// Gives buffers that nobody needed since the last call back to the system.
  void trim();

  /// Resident bytes that unused buffers hold at most.
  std::size_t kept_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gradus::api
