// When an answer counts as right: within what batching, or other hardware, may change of it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tools/http_client.h"

namespace gradus::tools {

/// Shares of the greatest magnitude among an output's right values.
constexpr double kSameHardware = 1e-4;   // other batches sum in another order
constexpr double kOtherHardware = 0.02;  // half precision needs about half of it

struct RightAnswer {
  struct Output {
    DType dtype;
    std::size_t bytes;
  };
  std::string tensors;          // as they stand behind an answer's JSON
  std::vector<Output> outputs;  // in that order
  double tolerance = 0;         // of floating-point outputs; others are compared to the bit
};

/// Takes an answer with binary outputs as the right one. kInternal: its JSON does not say what they
/// are.
Result<RightAnswer> right_answer(const HttpAnswer& answer, double tolerance);

bool agrees(const RightAnswer& right, std::string_view tensors);

}  // namespace gradus::tools
