// Writing JSON by hand where the shape is known: quoting, and numbers that read back exactly.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace gradus {

/// Appends `text` quoted and escaped; bytes that are not valid UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Appends the shortest form that reads back as the same double; NaN and infinities as null.
void append_json_number(std::string& out, double value);

std::string json_string(std::string_view text);

/// How many bytes at the front are valid UTF-8; `text.size()` if all are.
std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace gradus
