#include "batch/join.h"

#include <algorithm>
#include <string>

#include "batch/elements.h"

namespace gradus::batch {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::byte* append(std::byte* at, std::span<const std::byte> bytes) {
  return std::copy(bytes.begin(), bytes.end(), at);
}

std::byte* append_padding(std::byte* at, std::uint64_t bytes, std::span<const std::byte> element) {
  if (std::all_of(element.begin(), element.end(), [&](std::byte b) { return b == element[0]; })) {
    return std::fill_n(at, bytes, element[0]);
  }
  for (const std::byte* end = at + bytes; at != end;) at = append(at, element);
  return at;
}

}  // namespace

Result<Joined> plan_join(std::string_view name, std::span<const TensorView* const> parts,
                         const Pad* pad) {
  const auto fault = [&](const std::string& what) {
    return fail(Code::kInternal, "tensor '" + std::string(name) + "' " + what);
  };
  const TensorView& first = *parts.front();
  const std::size_t dim = pad == nullptr ? 0 : pad->dim;  // of 0 lengths may differ anyway
  Joined plan{first.shape, 0};
  std::int64_t rows = 0;
  for (const TensorView* part : parts) {
    const auto checked = check_rows(name, *part);
    if (!checked) return tl::unexpected(checked.error());
    Shape expected = part->shape;  // but for the two dimensions that may differ
    if (dim < std::min(expected.size(), plan.shape.size())) {
      expected[0] = plan.shape[0];
      expected[dim] = plan.shape[dim];
    }
    if (expected != plan.shape || dim >= plan.shape.size() || part->dtype != first.dtype) {
      return fault("cannot be joined: " + std::string(dtype_name(first.dtype)) + " " +
                   shape_text(first.shape) + " with " + std::string(dtype_name(part->dtype)) + " " +
                   shape_text(part->shape));
    }
    if (first.dtype == DType::kBytes && dim > 0 && part->shape[dim] != first.shape[dim]) {
      return fault("of BYTES cannot be padded: lengths " + std::to_string(first.shape[dim]) +
                   " and " + std::to_string(part->shape[dim]));
    }
    rows += part->shape[0];
    plan.shape[dim] = std::max(plan.shape[dim], part->shape[dim]);
    plan.bytes += part->data.size();
  }
  plan.shape[0] = rows;
  const auto count = element_count(plan.shape);
  if (!count) return fault(count.error().message);
  if (const std::uint64_t size = element_size(first.dtype); size != 0) {
    if (*count > kMostBytes / size) return fault(shape_text(plan.shape) + " is over 2^62 bytes");
    plan.bytes = *count * size;
  }
  return plan;
}

void join(std::span<const TensorView* const> parts, const Joined& plan, std::span<std::byte> into,
          const Pad* pad) {
  std::byte* at = into.data();
  for (const TensorView* part : parts) {
    if (pad == nullptr || part->shape[pad->dim] == plan.shape[pad->dim]) {
      at = append(at, part->data);
      continue;
    }
    const std::uint64_t size = element_size(part->dtype);
    const std::uint64_t blocks = product(part->shape, 0, pad->dim);
    const std::uint64_t own = product(part->shape, pad->dim, part->shape.size()) * size;
    const std::uint64_t whole = product(plan.shape, pad->dim, plan.shape.size()) * size;
    for (std::uint64_t block = 0; block < blocks; ++block) {
      at = append(at, part->data.subspan(block * own, own));
      at = append_padding(at, whole - own, std::span(pad->element).first(size));
    }
  }
}

}  // namespace gradus::batch
