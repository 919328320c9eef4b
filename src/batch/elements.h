// Where a tensor's elements lie in its bytes: by size, or for BYTES found by one walk.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::batch {

class Elements {
 public:
  /// @param tensor well-formed (check_byte_size); its bytes are borrowed
  explicit Elements(const TensorView& tensor);

  /// The bytes of `count` elements from `first` on, row-major; all within the tensor.
  std::span<const std::byte> bytes(std::uint64_t first, std::uint64_t count) const;

 private:
  std::span<const std::byte> data_;
  std::uint64_t size_;                 // of one; 0: BYTES
  std::vector<std::uint64_t> starts_;  // BYTES: of each element, and the end
};

/// The bytes of a tensor's first `count` elements.
/// @param data of well-formed elements, at least so many
std::span<const std::byte> first_elements(DType dtype, std::span<const std::byte> data,
                                          std::uint64_t count);

/// Product of the dimensions from `begin` to before `end`; all >= 0.
std::uint64_t product(const Shape& shape, std::size_t begin, std::size_t end);

/// kInternal that says what of `name` is wrong: its bytes do not fit its shape, or it is a scalar.
Result<void> check_rows(std::string_view name, const TensorView& tensor);

}  // namespace gradus::batch
