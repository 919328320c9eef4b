// Whether a model's requests may be joined along a batch dimension, and which of them with which.
// The declared dimensions say what is possible; whether the outputs really follow the batch only
// two runs show.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "batch/padding.h"
#include "tensor/tensor.h"

namespace gradus::batch {

/// Why the model is run one request at a time, in one line: `output 'scores' has a fixed first
/// dimension 1`. Nothing: every input and output is declared with a variable first dimension.
std::optional<std::string> why_not_batchable(const Model& model);

/// Why the outputs of two runs with unequal batches (`size`), all else alike, show that they can't
/// be given back row by row: `output 'mean' has first dimension 1 for a batch of 2`.
std::optional<std::string> why_outputs_do_not_follow(const Model& model, const Observed& one,
                                                     const Observed& other);

/// How one request waits: the fields of its Entry that depend on its tensors.
struct Fit {
  std::uint32_t samples = 1;
  std::uint64_t group = 0;  // 0: runs alone
  std::int64_t length = 0;
};
/// Requests of one group agree in every dimension but the batch's and the padded ones, in the
/// optional inputs that they give and in the outputs that they want. Lengths are no part of the
/// group: `look` and `take` hold the bound on waste exactly, which joins more than buckets of
/// lengths would. Alone: inputs whose first dimensions differ, no samples, unequal padded lengths,
/// no elements.
/// @param inputs in the model's order, the optional ones last
/// @param outputs indices of the wanted ones, in the order wanted
/// @param optional which of the model's optional inputs those are; all have the batch's dimension
Fit fit(const Padding& padding, std::span<const TensorView> inputs,
        std::span<const std::size_t> outputs, std::span<const std::size_t> optional = {});

}  // namespace gradus::batch
