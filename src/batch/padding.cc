#include "batch/padding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gradus::batch {
namespace {

using Element = std::array<std::byte, 8>;

template <class T>
Element element_of(T value) {
  Element element{};
  std::memcpy(element.data(), &value, sizeof value);
  return element;
}

template <class T>
std::optional<Element> integer(double value) {
  using Limits = std::numeric_limits<T>;
  const bool in_range = value >= static_cast<double>(Limits::min()) &&
                        value < std::ldexp(1.0, Limits::digits) && value == std::trunc(value);
  return in_range ? std::optional(element_of(static_cast<T>(value))) : std::nullopt;
}

std::optional<Element> single(double value) {
  if (std::isfinite(value) && std::fabs(value) > std::numeric_limits<float>::max()) {
    return std::nullopt;
  }
  return element_of(static_cast<float>(value));
}

// IEEE 754's layout in 16 bits, rounded to nearest even.
std::optional<Element> sixteen_bits(double value, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int least = 2 - (1 << (exponent_bits - 1));  // the exponent of subnormals
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  const double size = std::fabs(value);
  int bits = infinity;
  if (std::isnan(value)) {
    bits = infinity | 1 << (mantissa_bits - 1);
  } else if (std::isfinite(value)) {
    const int exponent = size == 0 ? least : std::max(std::ilogb(size), least);
    if (exponent > -least + 1) return std::nullopt;
    // A normal number's leading 1 adds one to the exponent's field, a carry another.
    const auto mantissa = std::lrint(std::ldexp(size, mantissa_bits - exponent));
    bits = ((exponent - least) << mantissa_bits) + static_cast<int>(mantissa);
    if (bits >= infinity) return std::nullopt;
  }
  return element_of(static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0)));
}

std::optional<Element> encode(DType dtype, double value) {
  switch (dtype) {
    case DType::kBool:
      return integer<bool>(value);
    case DType::kUint8:
      return integer<std::uint8_t>(value);
    case DType::kUint16:
      return integer<std::uint16_t>(value);
    case DType::kUint32:
      return integer<std::uint32_t>(value);
    case DType::kUint64:
      return integer<std::uint64_t>(value);
    case DType::kInt8:
      return integer<std::int8_t>(value);
    case DType::kInt16:
      return integer<std::int16_t>(value);
    case DType::kInt32:
      return integer<std::int32_t>(value);
    case DType::kInt64:
      return integer<std::int64_t>(value);
    case DType::kFp16:
      return sixteen_bits(value, 10);
    case DType::kBf16:
      return sixteen_bits(value, 7);
    case DType::kFp32:
      return single(value);
    case DType::kFp64:
      return element_of(value);
    case DType::kBytes:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<Pad> plan_pad(const Port& input, double value) {
  const auto fault = [&](const std::string& what) {
    return fail(Code::kInvalid, "input '" + input.name + "' cannot be padded: " + what);
  };
  const auto variable = std::count(input.shape.begin() + 1, input.shape.end(), -1);
  if (variable != 1) {
    return fault("its shape " + shape_text(input.shape) + " has " + std::to_string(variable) +
                 " variable dimensions beyond the batch's, expected 1");
  }
  const auto element = pad_element(input.dtype, value);
  if (!element) return fault(element.error().message);
  const auto dim = std::find(input.shape.begin() + 1, input.shape.end(), -1);
  return Pad{static_cast<std::size_t>(dim - input.shape.begin()), *element};
}

void plan_well_known(const Model& model, Padding& padding) {
  bool masked = false;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const std::string& name = model.inputs[i].name;
    const bool mask = name == "attention_mask";
    if (!mask && name != "input_ids" && name != "token_type_ids") continue;
    if (const auto pad = plan_pad(model.inputs[i], 0)) {
      padding.inputs[i] = *pad;
      masked = masked || mask;
    }
  }
  if (!masked) std::fill(padding.inputs.begin(), padding.inputs.end(), std::nullopt);
}

}  // namespace

bool Padding::any() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const auto& pad) { return pad.has_value(); });
}

Result<std::array<std::byte, 8>> pad_element(DType dtype, double value) {
  if (const auto element = encode(dtype, value)) return *element;
  return fail(Code::kInvalid,
              std::string(dtype_name(dtype)) + " cannot hold the value " + std::to_string(value));
}

Result<Padding> plan_padding(const Model& model, const std::map<std::string, double>& values) {
  Padding padding;
  padding.inputs.resize(model.inputs.size());
  if (values.empty()) {
    plan_well_known(model, padding);
    return padding;
  }
  for (const auto& [name, value] : values) {
    const auto input = std::ranges::find(model.inputs, name, &Port::name);
    if (input == model.inputs.end()) {
      return fail(Code::kInvalid, "input '" + name + "' cannot be padded: the model has none");
    }
    const auto pad = plan_pad(*input, value);
    if (!pad) return tl::unexpected(pad.error());
    padding.inputs[static_cast<std::size_t>(input - model.inputs.begin())] = *pad;
  }
  return padding;
}

Result<std::vector<std::vector<std::size_t>>> learn_tied(const Model& model, const Observed& one,
                                                         const Observed& other) {
  std::vector<std::vector<std::size_t>> tied(model.outputs.size());
  for (std::size_t i = 0; i < tied.size(); ++i) {
    const Shape& a = one.outputs[i];
    const Shape& b = other.outputs[i];
    for (std::size_t dim = 0; dim < std::max(a.size(), b.size()); ++dim) {
      const bool both = dim < a.size() && dim < b.size();
      if (both && a[dim] == b[dim]) continue;
      if (!both || dim == 0 || a[dim] != one.size || b[dim] != other.size) {
        return fail(Code::kInvalid, "output '" + model.outputs[i].name + "' has shape " +
                                        shape_text(a) + " for length " + std::to_string(one.size) +
                                        " and " + shape_text(b) + " for length " +
                                        std::to_string(other.size) + ", which cannot be cut back");
      }
      tied[i].push_back(dim);
    }
  }
  return tied;
}

}  // namespace gradus::batch
