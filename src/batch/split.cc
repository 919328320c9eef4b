#include "batch/split.h"

#include <algorithm>
#include <string>

#include "batch/elements.h"

namespace gradus::batch {
namespace {

// Calls `take` with the first element of each contiguous run of a box: the rows of `whole` from
// `first_row` on, `box` large, which is cut last in dimension `last_cut`.
template <class Take>
void each_run(const Shape& whole, const Shape& box, std::uint64_t first_row, std::size_t last_cut,
              Take take) {
  const std::uint64_t runs = product(box, 0, last_cut);
  for (std::uint64_t run = 0; run < runs; ++run) {
    std::uint64_t rest = run;
    std::uint64_t element = first_row * product(whole, 1, whole.size());
    for (std::size_t dim = last_cut; dim-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(box[dim]);
      element += rest % extent * product(whole, dim + 1, whole.size());
      rest /= extent;
    }
    take(element);
  }
}

class Splitter {
 public:
  explicit Splitter(const Tensor& output)
      : output_(output), elements_({output.dtype, output.shape, output.data}) {}

  /// The next rows, `box` large.
  Tensor next(Shape box) {
    std::size_t last_cut = 0;
    for (std::size_t dim = 1; dim < box.size(); ++dim) {
      if (box[dim] != output_.shape[dim]) last_cut = dim;
    }
    const std::uint64_t first_row = row_;
    row_ += static_cast<std::uint64_t>(box[0]);
    const std::uint64_t runs = product(box, 0, last_cut);
    const std::uint64_t length = product(box, last_cut, box.size());  // of a run, in elements
    if (runs <= 1) {  // one piece; so are all rows of a box that is not cut
      const std::uint64_t first = first_row * product(output_.shape, 1, output_.shape.size());
      const auto bytes = elements_.bytes(first, runs * length);
      return {output_.dtype, std::move(box), bytes, output_.owner};
    }
    std::vector<std::byte> copy;
    copy.reserve(product(box, 0, box.size()) * element_size(output_.dtype));
    each_run(output_.shape, box, first_row, last_cut, [&](std::uint64_t element) {
      const auto bytes = elements_.bytes(element, length);
      copy.insert(copy.end(), bytes.begin(), bytes.end());
    });
    return make_tensor(output_.dtype, std::move(box), std::move(copy));
  }

 private:
  const Tensor& output_;
  const Elements elements_;
  std::uint64_t row_ = 0;
};

}  // namespace

Result<std::vector<Tensor>> split(std::string_view name, const Tensor& output,
                                  std::span<const Share> shares,
                                  std::span<const std::size_t> tied) {
  const auto checked = check_rows(name, {output.dtype, output.shape, output.data});
  if (!checked) return tl::unexpected(checked.error());
  std::int64_t rows = 0;
  std::int64_t longest = 0;
  for (const Share& share : shares) {
    rows += share.samples;
    longest = std::max(longest, share.length);
  }
  const auto expect = [&](std::size_t dim, std::int64_t size, const char* of) -> Result<void> {
    if (dim < output.shape.size() && output.shape[dim] == size) return {};
    return fail(Code::kInternal, "output '" + std::string(name) + "' has shape " +
                                     shape_text(output.shape) + ", expected dimension " +
                                     std::to_string(dim) + " = " + std::to_string(size) + ", " +
                                     of);
  };
  Result<void> fits = expect(0, rows, "the batch");
  for (const std::size_t dim : tied) {
    if (fits) fits = expect(dim, longest, "the longest padded length");
  }
  if (!fits) return tl::unexpected(fits.error());

  Splitter splitter(output);
  std::vector<Tensor> parts;
  parts.reserve(shares.size());
  for (const Share& share : shares) {
    Shape box = output.shape;
    box[0] = share.samples;
    for (const std::size_t dim : tied) box[dim] = share.length;
    parts.push_back(splitter.next(std::move(box)));
  }
  return parts;
}

RowReader::RowReader(const TensorView& tensor)
    : rest_(tensor), row_(product(tensor.shape, 1, tensor.shape.size())) {}

TensorView RowReader::next(std::uint32_t count) {
  rest_.shape[0] = count;
  TensorView rows{rest_.dtype, rest_.shape, first_elements(rest_.dtype, rest_.data, count * row_)};
  rest_.data = rest_.data.subspan(rows.data.size());
  return rows;
}

}  // namespace gradus::batch
