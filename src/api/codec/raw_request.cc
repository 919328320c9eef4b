#include <cstdint>
#include <limits>
#include <string>

#include "api/codec/infer_request.h"

namespace gradus::api {
namespace {

tl::unexpected<Error> refuse(const runtime::TensorSpec& input, std::string_view why) {
  std::string text = "raw request: input '" + input.name + "' of shape " + shape_text(input.shape);
  text += ' ';
  return fail(Code::kInvalid, text += why);
}

// The shape of a BYTES input that holds one element: ones.
Result<Shape> one_element(const runtime::TensorSpec& input) {
  for (const std::int64_t dim : input.shape) {
    if (dim != 1 && dim != -1) return refuse(input, "cannot hold exactly one BYTES element");
  }
  return Shape(input.shape.size(), 1);
}

// The input's shape with its variable dimension, if any, as `size` bytes settle it.
Result<Shape> settle(const runtime::TensorSpec& input, std::uint64_t size) {
  Shape shape = input.shape;
  std::int64_t* variable = nullptr;
  for (std::int64_t& dim : shape) {
    if (dim >= 0) continue;
    if (variable != nullptr) {
      return refuse(input, "has more than one variable dimension; send the shape in JSON");
    }
    variable = &dim;
  }
  if (variable == nullptr) return shape;
  *variable = 1;
  const auto fixed = element_count(shape);
  if (!fixed) return refuse(input, "has too many elements");
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t step = element_size(input.dtype);
  if (*fixed == 0 || *fixed > most / step || size % (*fixed * step) != 0) {
    return refuse(input, "of " + std::string(dtype_name(input.dtype)) + " takes multiples of " +
                             std::to_string(*fixed) + " x " + std::to_string(step) +
                             " bytes, the body has " + std::to_string(size));
  }
  *variable = static_cast<std::int64_t>(size / (*fixed * step));
  return shape;
}

}  // namespace

Result<DecodedInfer> decode_raw_infer(std::string_view model, std::string_view version, Body body,
                                      const runtime::Signature& signature) {
  if (signature.inputs.size() != 1) {
    return fail(Code::kInvalid, "raw request: the model has " +
                                    std::to_string(signature.inputs.size()) +
                                    " inputs; expected exactly 1");
  }
  const runtime::TensorSpec& input = signature.inputs.front();
  const bool text = input.dtype == DType::kBytes;
  auto shape = text ? one_element(input) : settle(input, body.bytes.size());
  if (!shape) return tl::unexpected(std::move(shape.error()));
  DecodedInfer decoded;
  decoded.forms.rest = Form::kBinary;
  TensorView tensor{input.dtype, std::move(*shape), body.bytes};
  const std::size_t alignment = std::max<std::size_t>(1, element_size(input.dtype));
  const auto address = reinterpret_cast<std::uintptr_t>(body.bytes.data());
  if (text || address % alignment != 0) {
    std::vector<std::byte> bytes;
    if (text) {
      append_bytes_element(bytes,
                           {reinterpret_cast<const char*>(body.bytes.data()), body.bytes.size()});
    } else {
      bytes.assign(body.bytes.begin(), body.bytes.end());
    }
    Tensor copy = make_tensor(input.dtype, {}, std::move(bytes));
    tensor.data = copy.data;
    body.storage = std::move(copy.owner);
  }
  if (auto fits = check_byte_size(tensor); !fits) {
    return fail(Code::kInvalid, "raw request: input '" + input.name + "' " + fits.error().message);
  }
  decoded.request.model = model;
  decoded.request.version = version;
  decoded.request.inputs.push_back({input.name, std::move(tensor)});
  decoded.request.storage = std::move(body.storage);
  return decoded;
}

}  // namespace gradus::api
