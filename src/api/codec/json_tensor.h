// The `data` of a JSON tensor to typed memory. Only this folder's .cc files include it.
#pragma once
#include <memory>
#include <span>

#include "api/codec/json_walk.h"
#include "tensor/tensor.h"

namespace gradus::api {

struct OwnedBytes {
  std::span<const std::byte> bytes;  // aligned to 16
  std::shared_ptr<const void> owner;
};

/// Flattens `data`, nested in any way, in row-major order: the count of its elements must be the
/// shape's, its nesting need not be. Allocates no more than the text can fill, whatever the shape
/// claims.
/// @param data an array, or one bare element; `depth` containers are around it
/// @return kInvalid: too many or too few elements, one of the wrong type or out of range, or a
///   type without JSON form (FP16, BF16)
Result<OwnedBytes> read_json_tensor(JsonWalk& walk, ondemand::value data, std::size_t depth,
                                    DType dtype, const Shape& shape, std::uint64_t count);

}  // namespace gradus::api
