// Which inputs are padded to a batch's longest, with which value, and which output dimensions
// follow the padded length and are cut back. The inputs come from the model's config or from
// well-known names, the outputs from two runs at unequal lengths.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::batch {

struct Port {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;  // -1: variable
};

struct Model {
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

/// How one input is padded.
struct Pad {
  std::size_t dim = 1;  // >= 1
  /// One element, little-endian, the dtype's size; what is beyond that stays 0.
  std::array<std::byte, 8> element{};
};

/// Of one model. Empty lists, or no pads in them: nothing is padded.
struct Padding {
  std::vector<std::optional<Pad>> inputs;  // one for each of the model's
  std::vector<std::vector<std::size_t>>
      outputs;  // for each: dims that follow the length, ascending

  const Pad* pad(std::size_t input) const {
    return input < inputs.size() && inputs[input] ? &*inputs[input] : nullptr;
  }
  std::span<const std::size_t> tied(std::size_t output) const {
    return output < outputs.size() ? std::span<const std::size_t>(outputs[output])
                                   : std::span<const std::size_t>{};
  }
  bool any() const;
};

/// The value as one element of the type: integers exactly, floats rounded to nearest. kInvalid for
/// BYTES, and for a value that the type cannot hold.
Result<std::array<std::byte, 8>> pad_element(DType dtype, double value);

/// Fills Padding::inputs of a batchable model; the outputs are for `learn_tied` to find.
/// @param values input name to pad value, as the config gives it; empty: `input_ids`,
///   `attention_mask` and `token_type_ids` with 0, if there is an `attention_mask` that can be
///   padded
/// @return kInvalid names the input: unknown, BYTES, a value that its type cannot hold, or not
///   exactly one variable dimension beyond the batch's
Result<Padding> plan_padding(const Model& model, const std::map<std::string, double>& values);

/// The output shapes of one run, in the model's order.
struct Observed {
  std::int64_t size = 0;       // the batch, or the padded length, that the inputs had
  std::vector<Shape> outputs;  // one for each of the model's
};

/// Padding::outputs from two runs of the same batch at two lengths (`size`) that differ.
/// @return kInvalid names an output that changes with the length in a way that can't be cut back
Result<std::vector<std::vector<std::size_t>>> learn_tied(const Model& model, const Observed& one,
                                                         const Observed& other);

}  // namespace gradus::batch
