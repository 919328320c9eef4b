#include "runtime/ort/values.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace gradus::runtime {
namespace {

constexpr std::array<std::pair<DType, ONNXTensorElementDataType>, 14> kTypes = {{
    {DType::kBool, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {DType::kUint8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {DType::kUint16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    {DType::kUint32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    {DType::kUint64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    {DType::kInt8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {DType::kInt16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    {DType::kInt32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {DType::kInt64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {DType::kFp16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {DType::kFp32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {DType::kFp64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {DType::kBf16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {DType::kBytes, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING},
}};

ONNXTensorElementDataType onnx_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Result<Ort::Value> bind_strings(const TensorView& view) {
  const auto count = element_count(view.shape);
  if (!count) return tl::unexpected(count.error());
  const auto elements = bytes_elements(view.data, *count);
  if (!elements) return tl::unexpected(elements.error());
  const Ort::AllocatorWithDefaultOptions allocator;
  Ort::Value value = Ort::Value::CreateTensor(allocator, view.shape.data(), view.shape.size(),
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  for (std::size_t i = 0; i < elements->size(); ++i) {
    const std::string_view element = (*elements)[i];
    char* room = value.GetResizedStringTensorElementBuffer(i, element.size());
    if (!element.empty()) std::memcpy(room, element.data(), element.size());
  }
  return value;
}

Tensor take_strings(const Ort::Value& value, Shape shape, std::size_t count) {
  const std::size_t length = value.GetStringTensorDataLength();
  std::vector<char> content(length);
  std::vector<std::size_t> starts(count);
  if (count > 0) value.GetStringTensorContent(content.data(), length, starts.data(), count);
  std::vector<std::byte> bytes;
  bytes.reserve(length + 4 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? starts[i + 1] : length;
    append_bytes_element(bytes, {content.data() + starts[i], end - starts[i]});
  }
  return make_tensor(DType::kBytes, std::move(shape), std::move(bytes));
}

// The exponent bits of NaN and the infinities are all ones. Without a branch in the loop, so that
// it is compiled into wide instructions.
template <class Word>
bool exponents_below(std::span<const std::byte> data, Word mask) {
  const auto* words = reinterpret_cast<const Word*>(data.data());
  const std::size_t count = data.size() / sizeof(Word);
  unsigned bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bad |= static_cast<unsigned>((words[i] & mask) == mask);
  }
  return bad == 0;
}

}  // namespace

std::optional<DType> dtype_of(ONNXTensorElementDataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

Result<Ort::Value> bind_input(const TensorView& view, const Ort::MemoryInfo& cpu) {
  if (view.dtype == DType::kBytes) return bind_strings(view);
  static constexpr std::uint64_t kNowhere = 0;  // an empty tensor needs some address all the same
  const void* bytes = view.data.empty() ? &kNowhere : static_cast<const void*>(view.data.data());
  const ONNXTensorElementDataType type = onnx_type(view.dtype);
  if (std::bit_cast<std::uintptr_t>(bytes) % element_size(view.dtype) == 0) {
    // ONNX Runtime does not write to a graph's inputs.
    return Ort::Value::CreateTensor(cpu, const_cast<void*>(bytes), view.data.size(),
                                    view.shape.data(), view.shape.size(), type);
  }
  const Ort::AllocatorWithDefaultOptions allocator;
  Ort::Value copy = Ort::Value::CreateTensor(allocator, view.shape.data(), view.shape.size(), type);
  if (copy.GetTensorSizeInBytes() != view.data.size()) {
    return fail(Code::kInvalid, "has " + std::to_string(view.data.size()) + " bytes, shape " +
                                    shape_text(view.shape) + " needs " +
                                    std::to_string(copy.GetTensorSizeInBytes()));
  }
  std::memcpy(copy.GetTensorMutableRawData(), view.data.data(), view.data.size());
  return copy;
}

Result<Tensor> take_output(Ort::Value&& value, DType dtype) {
  if (!value || !value.HasValue()) return fail(Code::kInternal, "the run gave no value");
  const auto info = value.GetTensorTypeAndShapeInfo();
  if (info.GetElementType() != onnx_type(dtype)) {
    return fail(Code::kInternal, "the run gave another type than the model declares");
  }
  Shape shape = info.GetShape();
  const std::size_t count = info.GetElementCount();
  if (dtype == DType::kBytes) return take_strings(value, std::move(shape), count);
  auto owner = std::make_shared<const Ort::Value>(std::move(value));
  const auto* data = static_cast<const std::byte*>(owner->GetTensorRawData());
  return Tensor{dtype, std::move(shape), {data, count * element_size(dtype)}, std::move(owner)};
}

bool all_finite(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::kFp16:
      return exponents_below<std::uint16_t>(tensor.data, 0x7c00);
    case DType::kBf16:
      return exponents_below<std::uint16_t>(tensor.data, 0x7f80);
    case DType::kFp32:
      return exponents_below<std::uint32_t>(tensor.data, 0x7f800000);
    case DType::kFp64:
      return exponents_below<std::uint64_t>(tensor.data, 0x7ff0000000000000);
    default:
      return true;
  }
}

}  // namespace gradus::runtime
