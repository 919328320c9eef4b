// Made-up inputs for a model of which only the signature is known: what probe runs, warm-ups and
// comparisons of levels feed. The same signature and size give the same bytes on every run.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "tensor/tensor.h"

namespace gradus::runtime {

/// One tensor for each input of the signature, in its order.
///
/// Dimensions: a variable first one is `batch`, any other variable one is `size`.
/// Values: floats pseudo-random in [0, 1), integers and booleans pseudo-random in {0, 1}, so that
/// they stay inside any table they index; all 1 for inputs named `attention_mask`; BYTES "1", which
/// models that read numbers take too.
/// @param size >= 1; @param batch >= 1
std::vector<Tensor> sample_inputs(const Signature& signature, std::int64_t size,
                                  std::int64_t batch = 1);

/// Views of `tensors`, which must outlive them.
std::vector<TensorView> views_of(std::span<const Tensor> tensors);

struct Sample {
  std::int64_t size = 1;  // give it to sample_inputs() for other levels of the same model
  std::vector<Tensor> inputs;
};

/// The first of a few usual sizes (64, 32, 128, 224, 256, 1, …) that the model runs with; each try
/// is a real run of all outputs. The error is the first size's; but kUnavailable, kNotFound or
/// kWorkerLost, which are no size's fault, end the search and are returned.
Result<Sample> find_sample(Backend& backend);

}  // namespace gradus::runtime
