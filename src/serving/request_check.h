// Holds a request against a model's signature before it costs a run: names, types, shapes, bytes.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "config/declared.h"
#include "runtime/backend.h"
#include "serving/request.h"

namespace gradus::serving {

/// What a level runs, in the order of the model's signature.
struct BoundRequest {
  std::vector<TensorView> inputs;     // one for each of signature.inputs, then the optional ones
  std::vector<std::size_t> optional;  // that came: indices into signature.optional_inputs
  std::vector<std::size_t> outputs;   // indices into signature.outputs, in the order wanted

  runtime::RunInputs run_inputs() const { return {inputs, optional}; }
};

/// kInvalid names the tensor, what came and what was expected. Every input must be there, and
/// known; optional ones may be left out; requested outputs must be known and named once; none
/// means all.
/// @param declared what requests are held against where it says more than the signature: shapes, a
///   batch of one size within its bound. What it reshapes is bound in the model's shape
Result<BoundRequest> bind_request(const Request& request, const runtime::Signature& signature,
                                  const config::Declared& declared = {});

}  // namespace gradus::serving
