// Joins tensors along dimension 0 into memory that the caller gives: the inputs of a batch's
// requests, padded to the longest. One tensor at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "batch/padding.h"
#include "tensor/tensor.h"

namespace gradus::batch {

struct Joined {
  Shape shape;
  std::uint64_t bytes = 0;
};

/// What the join of `parts` needs. Without `pad` the parts agree in every dimension but the first;
/// with it they may also differ in `pad->dim`, and the result has the longest.
/// @param name of the tensor, for errors
/// @param parts at least one, each well-formed (check_byte_size)
/// @return kInternal: the parts do not agree, or BYTES would need padding
Result<Joined> plan_join(std::string_view name, std::span<const TensorView* const> parts,
                         const Pad* pad = nullptr);

/// @param plan of the same parts and pad
/// @param into exactly plan.bytes
void join(std::span<const TensorView* const> parts, const Joined& plan, std::span<std::byte> into,
          const Pad* pad = nullptr);

}  // namespace gradus::batch
