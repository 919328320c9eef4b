// Request bodies for the codec's tests, in memory of exactly their size so that a sanitizer sees
// every read past the end.
#pragma once
#include <simdjson.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/codec/infer_request.h"

namespace gradus::api {

/// @param offset bytes before the body, from a start aligned to 16
/// @param after bytes behind it that may be read, filled with `filler`
inline Body body_of(std::string_view bytes, std::size_t offset = 0, std::size_t after = 0,
                    char filler = '}') {
  const std::size_t size = offset + bytes.size() + after;
  std::shared_ptr<char[]> memory(new char[size]);
  std::memset(memory.get(), filler, size);
  if (!bytes.empty()) std::memcpy(memory.get() + offset, bytes.data(), bytes.size());
  const auto* start = reinterpret_cast<const std::byte*>(memory.get() + offset);
  return {{start, bytes.size()}, std::move(memory), after};
}

inline Result<DecodedInfer> decode(std::string_view json, const DecodeLimits& limits = {}) {
  return decode_infer("m", "1", body_of(json), std::nullopt, limits);
}

/// JSON with binary data behind it, the latter aligned as a transport would.
inline Result<DecodedInfer> decode(std::string_view json, std::string_view binary) {
  std::string bytes(json);
  bytes += binary;
  return decode_infer("m", "1", body_of(bytes, body_offset(json.size())), json.size());
}

/// One input `x`.
inline std::string one_input(std::string_view datatype, std::string_view shape,
                             std::string_view rest) {
  std::string json = R"({"inputs":[{"name":"x","datatype":")";
  json.append(datatype).append(R"(","shape":)").append(shape);
  if (!rest.empty()) json.append(",").append(rest);
  return json + "}]}";
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const TensorView& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

inline std::string bytes_tensor(std::initializer_list<std::string_view> elements) {
  std::vector<std::byte> out;
  for (const auto element : elements) append_bytes_element(out, element);
  return text_of(out);
}

/// Parses the whole text with another parser than the codec's: "" when it is valid JSON.
inline std::string json_fault(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  return error ? simdjson::error_message(error) : "";
}

}  // namespace gradus::api
