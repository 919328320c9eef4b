// Base64 as RFC 4648, section 4, has it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace gradus::api {

/// Nothing: it is none. Padded, no line breaks, and the bits that stand for nothing are 0.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace gradus::api
