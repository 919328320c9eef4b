#include "api/codec/json_values.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/json_text.h"

namespace gradus::api {
namespace {

constexpr std::string_view kHint =
    "ask for it as binary data (parameter binary_data, or binary_data_output for all outputs)";

char* put(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

// At most 32 characters.
template <class T>
char* put_number(char* at, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return put(at, value ? "true" : "false");
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return put(at, "\"NaN\"");
      if (std::isinf(value)) return put(at, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
    char* const end = std::to_chars(at, at + 32, value).ptr;
    if constexpr (std::is_floating_point_v<T>) {
      // Without it a reader may take the number for an integer, and -0 would lose its sign.
      const std::string_view text(at, static_cast<std::size_t>(end - at));
      if (text.find_first_of(".e") == std::string_view::npos) return put(end, ".0");
    }
    return end;
  }
}

template <class T>
void append_numbers(std::string& out, std::span<const std::byte> data) {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  constexpr std::size_t kMostText = 40;
  std::array<char, 4096> chunk;
  char* at = chunk.data();
  const char* const full = chunk.data() + chunk.size() - kMostText;
  for (std::size_t i = 0; i + sizeof(Stored) <= data.size(); i += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, data.data() + i, sizeof stored);
    if (i > 0) *at++ = ',';
    at = put_number(at, static_cast<T>(stored));
    if (at >= full) {
      out.append(chunk.data(), at);
      at = chunk.data();
    }
  }
  out.append(chunk.data(), at);
}

Result<void> append_strings(std::string& out, const Tensor& tensor) {
  const auto count = element_count(tensor.shape);
  if (!count) return tl::unexpected(count.error());
  const auto elements = bytes_elements(tensor.data, *count);
  if (!elements) return tl::unexpected(elements.error());
  for (std::size_t i = 0; i < elements->size(); ++i) {
    const std::string_view element = (*elements)[i];
    if (!simdjson::validate_utf8(element)) {
      return fail(Code::kInvalid, "BYTES element " + std::to_string(i) +
                                      " is not UTF-8 and has no JSON form: " + std::string(kHint));
    }
    if (i > 0) out += ',';
    append_json_string(out, element);
  }
  return {};
}

}  // namespace

Result<void> append_json_values(std::string& out, const Tensor& tensor) {
  const auto numbers = [&]<class T>(T) -> Result<void> {
    append_numbers<T>(out, tensor.data);
    return {};
  };
  const auto elements = [&]() -> Result<void> {
    switch (tensor.dtype) {
      case DType::kBool:
        return numbers(bool{});
      case DType::kUint8:
        return numbers(std::uint8_t{});
      case DType::kUint16:
        return numbers(std::uint16_t{});
      case DType::kUint32:
        return numbers(std::uint32_t{});
      case DType::kUint64:
        return numbers(std::uint64_t{});
      case DType::kInt8:
        return numbers(std::int8_t{});
      case DType::kInt16:
        return numbers(std::int16_t{});
      case DType::kInt32:
        return numbers(std::int32_t{});
      case DType::kInt64:
        return numbers(std::int64_t{});
      case DType::kFp32:
        return numbers(float{});
      case DType::kFp64:
        return numbers(double{});
      case DType::kBytes:
        return append_strings(out, tensor);
      case DType::kFp16:
      case DType::kBf16:
        break;
    }
    return fail(Code::kInvalid,
                std::string(dtype_name(tensor.dtype)) + " has no JSON form: " + std::string(kHint));
  };
  out += '[';
  auto written = elements();
  out += ']';
  return written;
}

}  // namespace gradus::api
