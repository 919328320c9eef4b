// A tensor's elements as a JSON array. Only this folder's .cc files include it.
#pragma once
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::api {

/// Appends the elements, flat and row-major, as `[1.5,2.0]`. Floating-point numbers are the
/// shortest that read back as the same value, always with a point or an exponent; NaN and
/// infinities are the strings "NaN", "Infinity", "-Infinity".
/// @param tensor its bytes fit its type and shape
/// @return kInvalid: no JSON form (FP16, BF16, BYTES that are not UTF-8); `out` is then spoilt
Result<void> append_json_values(std::string& out, const Tensor& tensor);

}  // namespace gradus::api
