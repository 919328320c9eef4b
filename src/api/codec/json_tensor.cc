#include "api/codec/json_tensor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace gradus::api {
namespace {

std::string_view trimmed(std::string_view token) {
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

// Python's json module writes the bare words, our own answers are quoted.
std::optional<double> non_finite(std::string_view token) {
  if (token.size() > 2 && token.front() == '"' && token.back() == '"') {
    token = token.substr(1, token.size() - 2);
  }
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token == "Infinity") return std::numeric_limits<double>::infinity();
  if (token == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Nearest float to the number written in `source`, of which `value` is the nearest double. Rounding
// twice errs only where the double lies exactly between two floats, or below the normal floats.
bool to_float(double value, ondemand::value& source, float& out) {
  constexpr std::uint64_t kBelowFloat = (std::uint64_t{1} << 29) - 1;
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 28;
  constexpr double kSmallestNormal = std::numeric_limits<float>::min();
  // Halfway from the largest float to what would be the next one: from here on it is too large.
  constexpr double kTooLarge = 0x1.ffffffp+127;
  const double size = std::fabs(value);
  if (size >= kTooLarge) return false;
  out = static_cast<float>(value);
  const bool halfway = (std::bit_cast<std::uint64_t>(value) & kBelowFloat) == kHalf;
  if (!halfway && (size >= kSmallestNormal || size == 0)) return true;
  const std::string_view digits = trimmed(source.raw_json_token());
  float exact = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
  if (read.ec == std::errc()) out = exact;  // else it is too small for any float: zero stays
  return true;
}

template <class T>
bool parse_element(ondemand::value& value, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    return !value.get_bool().get(out);
  } else if constexpr (std::is_same_v<T, double>) {
    return !value.get_double().get(out);
  } else if constexpr (std::is_same_v<T, float>) {
    double wide = 0;
    return !value.get_double().get(wide) && to_float(wide, value, out);
  } else {
    std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> wide = 0;
    if (value.get(wide) || !std::in_range<T>(wide)) return false;
    out = static_cast<T>(wide);
    return true;
  }
}

template <class T>
std::string wanted(DType dtype) {
  const std::string name(dtype_name(dtype));
  if constexpr (std::is_same_v<T, bool>) {
    return name + ": true or false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return name + R"(: a number in its range, "NaN", "Infinity" or "-Infinity")";
  } else {
    return name + ": an integer in [" + std::to_string(std::numeric_limits<T>::min()) + ", " +
           std::to_string(std::numeric_limits<T>::max()) + "]";
  }
}

// Writes the elements of arrays in arrays one after the other.
template <class T>
class Flattener {
 public:
  Flattener(JsonWalk& walk, DType dtype, std::uint64_t room)
      : walk_(walk),
        dtype_(dtype),
        room_(room),
        memory_(std::make_unique_for_overwrite<std::byte[]>(room * sizeof(T))),
        out_(reinterpret_cast<T*>(memory_.get())) {}

  Result<void> add(ondemand::value value, std::size_t depth) {
    if (found_ < room_ && parse_element(value, out_[found_])) {
      ++found_;
      return {};
    }
    return add_other(value, depth);
  }

  bool overfull() const { return overfull_; }
  std::uint64_t found() const { return found_; }
  OwnedBytes take() && {
    const std::span<const std::byte> bytes(memory_.get(), found_ * sizeof(T));
    return {bytes, std::shared_ptr<const std::byte[]>(std::move(memory_))};
  }

 private:
  Result<void> add_array(ondemand::array array, std::size_t depth) {
    for (auto each : array) {
      ondemand::value value;
      if (const auto error = each.get(value)) return walk_.malformed(error);
      if (found_ < room_ && parse_element(value, out_[found_])) [[likely]] {
        ++found_;
      } else if (auto added = add_other(value, depth); !added) {
        return added;
      }
    }
    return {};
  }

  // An array, one of the words for NaN and infinities, or a fault.
  Result<void> add_other(ondemand::value value, std::size_t depth) {
    const std::string_view token = value.raw_json_token();
    if (token.starts_with('[')) {
      if (auto fits = walk_.check_depth(depth + 1); !fits) return fits;
      ondemand::array array;
      if (const auto error = value.get_array().get(array)) return walk_.malformed(error);
      return add_array(array, depth + 1);
    }
    if (found_ == room_ && !token.starts_with(']')) {
      overfull_ = true;
      return fail(Code::kInvalid, "");  // the caller knows the shape and words it
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (const auto word = non_finite(trimmed(token))) {
        out_[found_++] = static_cast<T>(*word);
        return {};
      }
    }
    return walk_.unexpected_value(value, "data element " + std::to_string(found_),
                                  wanted<T>(dtype_));
  }

  JsonWalk& walk_;
  DType dtype_;
  std::uint64_t room_;  // elements that fit, and may come
  std::unique_ptr<std::byte[]> memory_;
  T* out_;
  std::uint64_t found_ = 0;
  bool overfull_ = false;
};

tl::unexpected<Error> wrong_count(std::string_view found, const Shape& shape, std::uint64_t count) {
  std::string text = "data has ";
  text += found;
  return fail(Code::kInvalid,
              text + " elements, shape " + shape_text(shape) + " needs " + std::to_string(count));
}

template <class T>
Result<OwnedBytes> read_numbers(JsonWalk& walk, ondemand::value data, std::size_t depth,
                                DType dtype, const Shape& shape, std::uint64_t count) {
  static_assert(sizeof(bool) == 1);
  // An element takes at least one byte of the text and a comma or bracket.
  const std::uint64_t room = std::min<std::uint64_t>(count, walk.text_size() / 2);
  Flattener<T> flat(walk, dtype, room);
  if (auto added = flat.add(data, depth); !added) {
    if (flat.overfull()) return wrong_count("more than " + std::to_string(room), shape, count);
    return tl::unexpected(added.error());
  }
  if (flat.found() != count) return wrong_count(std::to_string(flat.found()), shape, count);
  return std::move(flat).take();
}

// BYTES: strings, each with its length before it.
class StringFlattener {
 public:
  StringFlattener(JsonWalk& walk, std::uint64_t most) : walk_(walk), most_(most) {}

  Result<void> add(ondemand::value value, std::size_t depth) {
    const std::string_view token = value.raw_json_token();
    if (token.starts_with('[')) {
      return walk_.each_element(
          value, depth + 1, "data",
          [&](ondemand::value element, std::size_t) { return add(element, depth + 1); });
    }
    if (found_ < most_ || token.starts_with(']')) {
      const auto text = walk_.string(value, "data element " + std::to_string(found_));
      if (!text) return tl::unexpected(text.error());
      append_bytes_element(bytes_, *text);
      ++found_;
      return {};
    }
    overfull_ = true;
    return fail(Code::kInvalid, "");  // the caller knows the shape and words it
  }

  bool overfull() const { return overfull_; }
  std::uint64_t found() const { return found_; }
  OwnedBytes take() && {
    Tensor tensor = make_tensor(DType::kBytes, {}, std::move(bytes_));
    return {tensor.data, std::move(tensor.owner)};
  }

 private:
  JsonWalk& walk_;
  std::uint64_t most_;
  std::vector<std::byte> bytes_;
  std::uint64_t found_ = 0;
  bool overfull_ = false;
};

Result<OwnedBytes> read_strings(JsonWalk& walk, ondemand::value data, std::size_t depth,
                                const Shape& shape, std::uint64_t count) {
  StringFlattener flat(walk, count);
  if (auto added = flat.add(data, depth); !added) {
    if (flat.overfull()) return wrong_count("more than " + std::to_string(count), shape, count);
    return tl::unexpected(added.error());
  }
  if (flat.found() != count) return wrong_count(std::to_string(flat.found()), shape, count);
  return std::move(flat).take();
}

}  // namespace

Result<OwnedBytes> read_json_tensor(JsonWalk& walk, ondemand::value data, std::size_t depth,
                                    DType dtype, const Shape& shape, std::uint64_t count) {
  const auto read = [&]<class T>(T) {
    return read_numbers<T>(walk, data, depth, dtype, shape, count);
  };
  switch (dtype) {
    case DType::kBool:
      return read(bool{});
    case DType::kUint8:
      return read(std::uint8_t{});
    case DType::kUint16:
      return read(std::uint16_t{});
    case DType::kUint32:
      return read(std::uint32_t{});
    case DType::kUint64:
      return read(std::uint64_t{});
    case DType::kInt8:
      return read(std::int8_t{});
    case DType::kInt16:
      return read(std::int16_t{});
    case DType::kInt32:
      return read(std::int32_t{});
    case DType::kInt64:
      return read(std::int64_t{});
    case DType::kFp32:
      return read(float{});
    case DType::kFp64:
      return read(double{});
    case DType::kBytes:
      return read_strings(walk, data, depth, shape, count);
    case DType::kFp16:
    case DType::kBf16:
      break;
  }
  return fail(Code::kInvalid, std::string(dtype_name(dtype)) +
                                  " has no JSON form: send it as binary data (parameter "
                                  "binary_data_size, header Inference-Header-Content-Length)");
}

}  // namespace gradus::api
