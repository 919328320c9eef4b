// Files and numbers from the command line of the benchmark's programs.
#pragma once
#include <charconv>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gradus::bench {

inline Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kNotFound, path + ": cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <class Number>
Result<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(Code::kInvalid, std::string(text) + ": not a number, or out of range");
  }
  return value;
}

}  // namespace gradus::bench
