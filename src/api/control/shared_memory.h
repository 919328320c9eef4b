// Memory that a client made on this machine (a POSIX shared memory object) and registered under a
// name, so that tensors need not travel: Triton's extension_shared_memory.md.
//
// It stays the client's: he may shrink it or write to it at any moment. So it is never mapped here.
// It is read by pread and written by pwrite, which fall short where touching a mapping would end
// the server (SIGBUS), and what was read is a copy, which nobody changes after it was checked. That
// costs one copy of each tensor (docs/protocol.md has figures).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace gradus::api {

/// Part of a shared memory object. Whoever holds it may use it, also after it was unregistered.
class Region {
 public:
  Region(std::string region_name, std::string object_key, std::uint64_t region_offset,
         std::uint64_t region_size, int fd)
      : name(std::move(region_name)),
        key(std::move(object_key)),
        offset(region_offset),
        byte_size(region_size),
        fd_(fd) {}
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// kInvalid: `at` + `size` is beyond the region. Never overflows.
  Result<void> check_range(std::uint64_t at, std::uint64_t size) const;
  /// Any thread. kInvalid: out of range, or the object has become shorter; `to` is undefined then.
  Result<void> read(std::uint64_t at, std::span<std::byte> to) const;
  /// As read(). A shortened object is not made longer again, unless it shrinks this very moment.
  Result<void> write(std::uint64_t at, std::span<const std::byte> from) const;

  const std::string name;
  const std::string key;       // as it was given
  const std::uint64_t offset;  // in the object
  const std::uint64_t byte_size;

 private:
  tl::unexpected<Error> shrunk() const;

  const int fd_;
};

class SharedMemory {
 public:
  /// @param most_regions each holds an open file
  explicit SharedMemory(std::size_t most_regions) : most_regions_(most_regions) {}

  struct Asked {
    std::string name;
    std::string key;  // `/name` or `name`: one component of a path, no link
    std::uint64_t offset = 0;
    std::uint64_t byte_size = 0;  // > 0
  };

  /// @return false: the name is taken already. kInvalid: a name or key that cannot be, an object
  ///   that is not there or too short, or one region too many
  Result<bool> add(Asked asked);
  /// Null: there is none of that name.
  std::shared_ptr<const Region> find(std::string_view name) const;
  /// Sorted by name.
  std::vector<std::shared_ptr<const Region>> all() const;
  /// Nothing happens when there is none of that name. Requests that use it end as they began.
  void remove(std::string_view name);
  void remove_all();

 private:
  const std::size_t most_regions_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Region>, std::less<>> regions_ GUARDED_BY(mutex_);
};

}  // namespace gradus::api
