// Tensors to and from ONNX Runtime's values, without copying where the bytes allow it.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <optional>

#include "base/result.h"
#include "tensor/tensor.h"

namespace gradus::runtime {

/// Nothing for types that the protocol does not have (complex, float8, int4, …).
std::optional<DType> dtype_of(ONNXTensorElementDataType type);

/// A value over the view's own bytes, valid as long as they are. Copied: BYTES, which ONNX Runtime
/// keeps as strings, and bytes that are not aligned for their type. Throws Ort::Exception, with
/// ORT_INVALID_ARGUMENT for bytes too few; kInvalid: malformed BYTES.
Result<Ort::Value> bind_input(const TensorView& view, const Ort::MemoryInfo& cpu);

/// The tensor in ONNX Runtime's own memory, which it keeps alive; BYTES are copied. kInternal: the
/// value is none, or its type is not `dtype`. Throws Ort::Exception.
Result<Tensor> take_output(Ort::Value&& value, DType dtype);

/// False when a floating-point tensor holds a NaN or an infinity; true for all other types.
bool all_finite(const Tensor& tensor);

}  // namespace gradus::runtime
