// An output's best classes in place of its values: Triton's extension_classification.md.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::api {

/// For each sample the `count` greatest values, best first, as BYTES `value:index[:label]`: the
/// value as printf's `%f` or as an integer, the index into the sample's values in row-major order.
/// Of equal values the lower index goes first; NaN goes last. Any thread.
/// @param count >= 1; more than there are values: all of them
/// @param batched the first dimension counts samples; else all values are one sample's
/// @param labels names of the indices; the rest have none
/// @return shape [batch, n] or [n]. kInvalid: BOOL, FP16, BF16 and BYTES have no classes
Result<Tensor> best_classes(const Tensor& values, std::uint32_t count, bool batched,
                            std::span<const std::string> labels);

}  // namespace gradus::api
