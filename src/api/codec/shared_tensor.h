// A tensor that lies in a client's shared memory in place of the message: parameters
// `shared_memory_region`, `shared_memory_offset`, `shared_memory_byte_size`. The same over every
// transport.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/control/shared_memory.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::api {

/// What a server allows of it.
struct SharedInputs {
  const SharedMemory* memory = nullptr;  // null: nothing
  std::uint64_t most_bytes = 64u << 20;  // of one request's inputs together, each of them copied
};

struct RegionRange {
  std::shared_ptr<const Region> region;  // null: the tensor is in the message
  std::uint64_t offset = 0;              // in the region
  std::uint64_t byte_size = 0;
};

/// As parameters say it.
struct RegionName {
  std::optional<std::string> region;
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> byte_size;
  bool any() const { return region || offset || byte_size; }
};

/// @param memory null: the server does not allow it
/// @return without a region where nothing is named. kNotFound: no such region; kInvalid: a
///   parameter is missing, or it is beyond the region
Result<RegionRange> find_range(const SharedMemory* memory, const RegionName& name);

/// A copy of the tensor.
/// @param shape, count its elements; @param bytes_left of what the request may have, made less
/// @return kInvalid: sizes that do not fit each other, BYTES that are malformed, or too much;
///   kUnavailable: no memory for the copy
Result<Tensor> read_shared(const RegionRange& range, DType dtype, Shape shape, std::uint64_t count,
                           std::uint64_t& bytes_left);

}  // namespace gradus::api
