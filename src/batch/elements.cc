#include "batch/elements.h"

#include <cstring>

namespace gradus::batch {
namespace {

// Where the BYTES element that starts at `start` ends.
std::uint64_t end_of(std::span<const std::byte> data, std::uint64_t start) {
  std::uint32_t length = 0;
  std::memcpy(&length, data.data() + start, sizeof length);
  return start + sizeof length + length;
}

}  // namespace

Elements::Elements(const TensorView& tensor)
    : data_(tensor.data), size_(element_size(tensor.dtype)) {
  if (size_ != 0) return;
  starts_.push_back(0);
  while (starts_.back() < data_.size()) starts_.push_back(end_of(data_, starts_.back()));
}

std::span<const std::byte> Elements::bytes(std::uint64_t first, std::uint64_t count) const {
  if (count == 0) return {};
  if (size_ != 0) return data_.subspan(first * size_, count * size_);
  return data_.subspan(starts_[first], starts_[first + count] - starts_[first]);
}

std::span<const std::byte> first_elements(DType dtype, std::span<const std::byte> data,
                                          std::uint64_t count) {
  if (const std::uint64_t size = element_size(dtype); size != 0) return data.first(count * size);
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < count; ++i) end = end_of(data, end);
  return data.first(end);
}

std::uint64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::uint64_t product = 1;
  for (std::size_t dim = begin; dim < end; ++dim) product *= static_cast<std::uint64_t>(shape[dim]);
  return product;
}

Result<void> check_rows(std::string_view name, const TensorView& tensor) {
  const auto fault = [&](const std::string& what) {
    return fail(Code::kInternal, "tensor '" + std::string(name) + "' " + what);
  };
  if (tensor.shape.empty()) return fault("is a scalar, which has no batch dimension");
  const auto checked = check_byte_size(tensor);
  if (!checked) return fault(checked.error().message);
  return {};
}

}  // namespace gradus::batch
