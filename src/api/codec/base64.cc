#include "api/codec/base64.h"

#include <array>
#include <cstdint>

namespace gradus::api {
namespace {

constexpr std::uint32_t kNone = 64;

constexpr auto kValues = [] {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::uint8_t, 256> values{};
  values.fill(kNone);
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}();

std::uint32_t value_of(char letter) { return kValues[static_cast<unsigned char>(letter)]; }

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const std::size_t letters = at + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t value = i < letters ? value_of(text[at + i]) : 0;
      if (value == kNone) return std::nullopt;
      bits = bits << 6 | value;
    }
    for (std::size_t i = 0; i + 1 < letters; ++i) {
      bytes.push_back(static_cast<char>(bits >> (16 - 8 * i) & 0xff));
    }
    if (letters < 4 && (bits & (letters == 3 ? 0xffU : 0xffffU)) != 0) return std::nullopt;
  }
  return bytes;
}

}  // namespace gradus::api
