// Tensors as they travel: row-major, little-endian bytes with a type and a shape. A view borrows
// its bytes (from a request's body), a Tensor keeps what owns them alive (a runtime's own buffer),
// so that neither needs a copy.
//
// BYTES tensors have one form everywhere: for each element its length as 4 little-endian bytes,
// then the bytes (Triton's extension_binary_data.md). Only the runtime's adapter knows another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace gradus {

using Shape = std::vector<std::int64_t>;

struct TensorView {
  DType dtype = DType::kFp32;
  Shape shape;                      // [] is a scalar; dimensions >= 0
  std::span<const std::byte> data;  // borrowed
};

struct Tensor {
  DType dtype = DType::kFp32;
  Shape shape;
  std::span<const std::byte> data;    // lies in what `owner` keeps alive
  std::shared_ptr<const void> owner;  // whatever frees the bytes
};

struct NamedView {
  std::string name;
  TensorView tensor;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Product of the dimensions, 1 for a scalar; kInvalid for a negative dimension or a product over
/// 2^62.
Result<std::uint64_t> element_count(const Shape& shape);

/// `[2,3,-1]`.
std::string shape_text(const Shape& shape);

/// The same number for the same shapes in the same order: which runs may be compared with each
/// other.
std::uint64_t shape_bucket(std::span<const TensorView> tensors);

/// A Tensor that owns a copy of `bytes`.
Tensor make_tensor(DType dtype, Shape shape, std::vector<std::byte> bytes);

/// Appends one element of a BYTES tensor.
void append_bytes_element(std::vector<std::byte>& out, std::string_view element);

/// The elements of a BYTES tensor as views into `data`; kInvalid when a length passes the end, or
/// when there are not exactly `count` elements.
Result<std::vector<std::string_view>> bytes_elements(std::span<const std::byte> data,
                                                     std::uint64_t count);

/// True when the bytes fit type and shape: element_count * element_size, or for BYTES exactly that
/// many well-formed elements; the error says what came and what was expected.
Result<void> check_byte_size(const TensorView& tensor);

}  // namespace gradus
