// What can run one variant of a model on one device. Everything above this line is the same whether
// ONNX Runtime runs in this process or elsewhere.
#pragma once
#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/stop.h"
#include "tensor/tensor.h"

namespace gradus::runtime {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;  // -1: variable
};

struct Signature {
  std::vector<TensorSpec> inputs;           // in the model's order, without initializers
  std::vector<TensorSpec> outputs;          // in the model's order
  std::vector<TensorSpec> optional_inputs;  // LoadSpec::overridable, in the model's order

  /// What a run may be given: first what it must.
  std::vector<TensorSpec> all_inputs() const {
    std::vector<TensorSpec> all = inputs;
    all.insert(all.end(), optional_inputs.begin(), optional_inputs.end());
    return all;
  }
};

/// What a run is given; borrowed.
struct RunInputs {
  template <std::convertible_to<std::span<const TensorView>> Views>
  RunInputs(const Views& all, std::span<const std::size_t> indices = {})
      : views(all), optional(indices) {}

  /// What the signature says of views[i].
  const TensorSpec& spec(const Signature& signature, std::size_t i) const {
    const std::size_t must = signature.inputs.size();
    return i < must ? signature.inputs[i] : signature.optional_inputs[optional[i - must]];
  }

  std::span<const TensorView> views;      // one for each of Signature::inputs, in order, then …
  std::span<const std::size_t> optional;  // … for these of Signature::optional_inputs, ascending
};

/// Graph nodes that each provider got, as ONNX Runtime placed them.
struct Placement {
  std::string provider;
  std::uint32_t nodes = 0;
};

struct Backend {
  virtual ~Backend() = default;

  /// The model's inputs and outputs; constant for the backend's life.
  virtual const Signature& signature() const = 0;

  /// Where the nodes lie; what carries most of them is the provider used.
  virtual const std::vector<Placement>& placement() const = 0;

  /// Runs once and blocks. Any thread, concurrently with itself; the caller bounds how many.
  /// @param inputs row-major; of an optional one that is left out the file's value is used
  /// @param outputs indices into signature().outputs, in the order wanted; at least one
  /// @param stop borrowed; null: nobody ends it. Where a run cannot be ended it has no effect
  /// @return tensors in the order of `outputs`, in the runtime's own memory;
  ///   kInvalid: the model refused these inputs (name, shape, type);
  ///   kUnavailable: the device or provider failed, another level may answer;
  ///   kNotFound: the process that had the model is gone, and not for this run's sake: no failure
  ///   of its own, but part of a loss that its worker's owner is told of;
  ///   kWorkerLost: as kUnavailable, and perhaps for what these inputs did to a worker process;
  ///   kCancelled: `stop` was asked for, and the run could be ended;
  ///   kInternal: anything else that went wrong while running
  virtual Result<std::vector<Tensor>> run(const RunInputs& inputs,
                                          std::span<const std::size_t> outputs, Stop* stop) = 0;
  /// The same of a run that nobody ends.
  Result<std::vector<Tensor>> run(const RunInputs& inputs, std::span<const std::size_t> outputs) {
    return run(inputs, outputs, nullptr);
  }
};

}  // namespace gradus::runtime
