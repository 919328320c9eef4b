#include "serving/output_contract.h"

#include <algorithm>
#include <limits>

namespace gradus::serving {
namespace {

// The first dimension of outputs on whose size the inputs have no say.
std::size_t first_settled(const runtime::Signature& signature) {
  std::size_t settled = 0;
  for (const runtime::TensorSpec& input : signature.inputs) {
    for (std::size_t dim = 0; dim < input.shape.size(); ++dim) {
      if (input.shape[dim] >= 0) continue;
      if (dim > 0) return std::numeric_limits<std::size_t>::max();
      settled = 1;
    }
  }
  return settled;
}

bool keeps(const Shape& shape, const Shape& promised) {
  return std::ranges::equal(shape, promised,
                            [](auto dim, auto want) { return want < 0 || dim == want; });
}

}  // namespace

OutputContract::OutputContract(const runtime::Signature& signature,
                               std::span<const Tensor> outputs) {
  const std::size_t settled = first_settled(signature);
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    const runtime::TensorSpec& spec = signature.outputs[i];
    const Shape& seen = outputs[i].shape;
    Promise promise{spec.name, seen.size() != spec.shape.size(), spec.shape};
    for (std::size_t dim = 0; dim < seen.size() && !promise.any_shape; ++dim) {
      if (dim < settled || seen[dim] != promise.shape[dim]) promise.shape[dim] = -1;
    }
    promises_.push_back(std::move(promise));
  }
}

Result<void> OutputContract::check(std::span<const std::size_t> wanted,
                                   std::span<const Tensor> tensors) const {
  if (promises_.empty()) return {};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Promise& promise = promises_[wanted[i]];
    if (promise.any_shape || keeps(tensors[i].shape, promise.shape)) continue;
    return fail(Code::kUnavailable, "output '" + promise.name + "' has shape " +
                                        shape_text(tensors[i].shape) + ", " +
                                        shape_text(promise.shape) + " was promised");
  }
  return {};
}

}  // namespace gradus::serving
