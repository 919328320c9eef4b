// What the outputs of a level must look like: real files declare shapes that they do not keep, so
// only what the level's own warm-up run confirms is held to ever after, and only where the inputs'
// shapes leave no doubt. An answer cut short by a broken device is a failure then, and no answer.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "tensor/tensor.h"

namespace gradus::serving {

class OutputContract {
 public:
  /// Nothing is promised.
  OutputContract() = default;

  /// Promised are the dimensions that the signature fixes and the run confirms: all of them where
  /// no input's shape is variable, all but the first where the inputs' first alone are, else none.
  /// @param outputs all of a warm-up run's, in the signature's order
  OutputContract(const runtime::Signature& signature, std::span<const Tensor> outputs);

  /// @param wanted indices into the signature's outputs; tensors come in the same order
  /// kUnavailable: `output 'y' has shape [1,2], [1,4] was promised`. Any thread.
  Result<void> check(std::span<const std::size_t> wanted, std::span<const Tensor> tensors) const;

 private:
  struct Promise {
    std::string name;
    bool any_shape = true;
    Shape shape;  // -1: any
  };
  std::vector<Promise> promises_;
};

}  // namespace gradus::serving
