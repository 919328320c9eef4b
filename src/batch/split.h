// Gives a joined run's outputs back row by row, and cuts a request that is larger than a batch may
// be into parts. Rows are views of the one buffer, which lives as long as any of them; only what
// must be cut back in a padded dimension and does not lie in one piece is copied.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::batch {

/// One request's share of a batch.
struct Share {
  std::uint32_t samples = 1;
  std::int64_t length = 0;  // of its padded dimension; 0 where nothing is padded
};

/// One output of a batch, cut for its requests.
/// @param name of the output, for errors
/// @param shares of the requests, in the order in which they were joined
/// @param tied dimensions that follow the padded length (Padding::tied)
/// @return one tensor for each share; kInternal names output, value and what was expected when the
///   first dimension is not the batch's or a tied one not the longest
Result<std::vector<Tensor>> split(std::string_view name, const Tensor& output,
                                  std::span<const Share> shares,
                                  std::span<const std::size_t> tied = {});

/// A tensor's rows, from the first one on: the parts of a request too large for one batch.
class RowReader {
 public:
  /// @param tensor well-formed; its bytes are borrowed
  explicit RowReader(const TensorView& tensor);

  /// The next `count` rows as a view of its bytes; it must have as many.
  TensorView next(std::uint32_t count);

 private:
  TensorView rest_;
  std::uint64_t row_;  // elements of one
};

}  // namespace gradus::batch
