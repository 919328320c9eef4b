// Holds a request against a model's signature before it costs a run: names, types, shapes, bytes.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "serving/request.h"

namespace gradus::serving {

/// What a level runs, in the order of the model's signature.
struct BoundRequest {
  std::vector<TensorView> inputs;    // one for each of signature.inputs
  std::vector<std::size_t> outputs;  // indices into signature.outputs, in the order wanted
};

/// kInvalid names the tensor, what came and what was expected. Every input must be there, and
/// known; requested outputs must be known and named once; none means all.
Result<BoundRequest> bind_request(const Request& request, const runtime::Signature& signature);

}  // namespace gradus::serving
