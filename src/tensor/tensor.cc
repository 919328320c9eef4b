#include "tensor/tensor.h"

#include <algorithm>
#include <cstring>

namespace gradus {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 62;

// Calls `take` with each element; kInvalid when a length passes the end.
template <class Take>
Result<std::uint64_t> each_element(std::span<const std::byte> data, Take take) {
  std::uint64_t found = 0;
  while (!data.empty()) {
    std::uint32_t length = 0;
    if (data.size() < sizeof length) {
      return fail(Code::kInvalid, "BYTES element " + std::to_string(found) + " has " +
                                      std::to_string(data.size()) +
                                      " bytes of its 4-byte length prefix");
    }
    std::memcpy(&length, data.data(), sizeof length);
    data = data.subspan(sizeof length);
    if (length > data.size()) {
      return fail(Code::kInvalid, "BYTES element " + std::to_string(found) + " says " +
                                      std::to_string(length) + " bytes, " +
                                      std::to_string(data.size()) + " are left");
    }
    take(std::string_view(reinterpret_cast<const char*>(data.data()), length));
    data = data.subspan(length);
    ++found;
  }
  return found;
}

}  // namespace

Result<std::uint64_t> element_count(const Shape& shape) {
  bool zero = false;
  for (const std::int64_t dim : shape) {
    zero = zero || dim == 0;
    if (dim < 0) {
      return fail(Code::kInvalid, "shape " + shape_text(shape) + " has a negative dimension " +
                                      std::to_string(dim));
    }
  }
  if (zero) return 0;
  std::uint64_t count = 1;
  for (const std::int64_t dim : shape) {
    const auto size = static_cast<std::uint64_t>(dim);
    if (count > kMostElements / size) {
      return fail(Code::kInvalid, "shape " + shape_text(shape) + " has more than 2^62 elements");
    }
    count *= size;
  }
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::uint64_t shape_bucket(std::span<const TensorView> inputs) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const TensorView& input : inputs) {
    mix(input.shape.size());
    for (const std::int64_t dim : input.shape) mix(static_cast<std::uint64_t>(dim));
  }
  return hash;
}

Tensor make_tensor(DType dtype, Shape shape, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> data(*owner);
  return {dtype, std::move(shape), data, std::move(owner)};
}

void append_bytes_element(std::vector<std::byte>& out, std::string_view element) {
  const auto length = static_cast<std::uint32_t>(element.size());
  const auto at = out.size();
  out.resize(at + sizeof length + element.size());
  std::memcpy(out.data() + at, &length, sizeof length);
  if (!element.empty())
    std::memcpy(out.data() + at + sizeof length, element.data(), element.size());
}

Result<std::vector<std::string_view>> bytes_elements(std::span<const std::byte> data,
                                                     std::uint64_t count) {
  std::vector<std::string_view> elements;
  // Each element takes at least its prefix, so the data bounds what a wrong count may reserve.
  elements.reserve(std::min<std::uint64_t>(count, data.size() / 4));
  const auto found =
      each_element(data, [&](std::string_view element) { elements.push_back(element); });
  if (!found) return tl::unexpected(found.error());
  if (*found != count) {
    return fail(Code::kInvalid, "has " + std::to_string(*found) + " BYTES elements, expected " +
                                    std::to_string(count));
  }
  return elements;
}

Result<void> check_byte_size(const TensorView& tensor) {
  const auto count = element_count(tensor.shape);
  if (!count) return tl::unexpected(count.error());
  if (tensor.dtype == DType::kBytes) {
    const auto found = each_element(tensor.data, [](std::string_view) {});
    if (!found) return tl::unexpected(found.error());
    if (*found != *count) {
      return fail(Code::kInvalid, "has " + std::to_string(*found) + " BYTES elements, shape " +
                                      shape_text(tensor.shape) + " needs " +
                                      std::to_string(*count));
    }
    return {};
  }
  const std::uint64_t size = element_size(tensor.dtype);
  if (*count > kMostElements / size || *count * size != tensor.data.size()) {
    return fail(Code::kInvalid, "has " + std::to_string(tensor.data.size()) + " bytes, shape " +
                                    shape_text(tensor.shape) + " of " +
                                    std::string(dtype_name(tensor.dtype)) + " needs " +
                                    std::to_string(*count) + " x " + std::to_string(size));
  }
  return {};
}

}  // namespace gradus
