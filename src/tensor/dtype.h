// The element types of the Open Inference Protocol v2 (inference_rest.md, "Tensor Data Types"),
// and Triton's BF16.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gradus {

enum class DType : std::uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBf16,
  kBytes,
};

/// Bytes of one element; 0 for BYTES, whose elements differ in size.
std::size_t element_size(DType dtype);

/// `FP32`, `BYTES`, …: the protocol's spelling.
std::string_view dtype_name(DType dtype);

/// Nothing for a name that the protocol does not have; upper case only, as the protocol says.
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace gradus
