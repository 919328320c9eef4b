#include "api/codec/header_value.h"

namespace gradus::api {

std::string header_value(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string value;
  value.reserve(name.size());
  for (const char c : name) {
    if (c > ' ' && c < 0x7f && c != '%') {
      value += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    value += {'%', kHex[byte >> 4], kHex[byte & 0xf]};
  }
  return value;
}

}  // namespace gradus::api
