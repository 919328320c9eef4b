#include "tools/drill_answers.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace gradus::tools {
namespace {

// IEEE 754 binary16.
double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 0x400, exponent - 25));
}

template <class T>
T load(std::string_view bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

bool is_float(DType dtype) {
  return dtype == DType::kFp16 || dtype == DType::kBf16 || dtype == DType::kFp32 ||
         dtype == DType::kFp64;
}

double value_at(DType dtype, std::string_view bytes, std::size_t index) {
  if (dtype == DType::kFp64) return load<double>(bytes, index);
  if (dtype == DType::kFp32) return load<float>(bytes, index);
  const auto bits = load<std::uint16_t>(bytes, index);
  if (dtype == DType::kFp16) return from_half(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);  // BF16: the upper half
}

bool close(DType dtype, double tolerance, std::string_view right, std::string_view got) {
  const std::size_t count = right.size() / element_size(dtype);
  double greatest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, std::fabs(value_at(dtype, right, i)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double off = std::fabs(value_at(dtype, right, i) - value_at(dtype, got, i));
    if (!(off <= tolerance * greatest)) return false;  // NaN is never close
  }
  return true;
}

}  // namespace

Result<RightAnswer> right_answer(const HttpAnswer& answer, double tolerance) {
  RightAnswer right{
      .tensors = std::string(answer.tensors()), .outputs = {}, .tolerance = tolerance};
  const std::string json = answer.body.substr(0, answer.body.size() - right.tensors.size());
  simdjson::dom::parser parser;
  simdjson::dom::array outputs;
  std::size_t bytes = 0;
  if (parser.parse(json)["outputs"].get(outputs) == simdjson::SUCCESS) {
    for (const simdjson::dom::element output : outputs) {
      std::string_view name;
      std::uint64_t size = 0;
      if (output["datatype"].get(name) != simdjson::SUCCESS ||
          output["parameters"]["binary_data_size"].get(size) != simdjson::SUCCESS) {
        continue;
      }
      const auto dtype = parse_dtype(name);
      if (!dtype) continue;
      right.outputs.push_back({*dtype, size});
      bytes += size;
    }
  }
  if (right.outputs.empty() || bytes != right.tensors.size()) {
    return fail(Code::kInternal, "an answer without binary outputs: " + json.substr(0, 200));
  }
  return right;
}

bool agrees(const RightAnswer& right, std::string_view tensors) {
  if (right.tensors == tensors) return true;
  if (right.tensors.size() != tensors.size()) return false;
  std::size_t at = 0;
  for (const RightAnswer::Output& output : right.outputs) {
    const std::string_view wanted = std::string_view(right.tensors).substr(at, output.bytes);
    const std::string_view got = tensors.substr(at, output.bytes);
    at += output.bytes;
    const bool good =
        is_float(output.dtype) ? close(output.dtype, right.tolerance, wanted, got) : wanted == got;
    if (!good) return false;
  }
  return true;
}

}  // namespace gradus::tools
