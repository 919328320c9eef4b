#include "config/http_url.h"

#include <algorithm>
#include <charconv>

namespace gradus::config {
namespace {

struct Parts {
  std::string_view scheme;  // with `://`; empty: not one of ours
  std::string_view user;    // with `@`
  std::string_view host;    // `[::1]` with its brackets
  std::string_view port;    // with `:`
  std::string_view rest;
};

Parts parts_of(std::string_view url) {
  Parts parts;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (url.starts_with(scheme)) parts.scheme = url.substr(0, scheme.size());
  }
  url.remove_prefix(parts.scheme.size());
  const std::size_t end = std::min(url.find_first_of("/?#"), url.size());
  parts.rest = url.substr(end);
  url = url.substr(0, end);
  const std::size_t at = url.rfind('@');
  if (at != std::string_view::npos) {
    parts.user = url.substr(0, at + 1);
    url.remove_prefix(at + 1);
  }
  const std::size_t bracket = url.rfind(']');
  const std::size_t colon = url.find(':', bracket == std::string_view::npos ? 0 : bracket);
  parts.host = url.substr(0, colon);
  if (colon != std::string_view::npos) parts.port = url.substr(colon);
  return parts;
}

bool is_port(std::string_view text) {  // `:9093`
  unsigned port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 1, end, port);
  return read.ec == std::errc() && read.ptr == end && port >= 1 && port <= 65535;
}

}  // namespace

bool is_http_url(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; })) return false;
  const Parts parts = parts_of(text);
  return !parts.scheme.empty() && !parts.host.empty() &&
         (parts.port.empty() || is_port(parts.port));
}

std::string masked_url(std::string_view url) {
  const Parts parts = parts_of(url);
  return std::string(parts.scheme) + (parts.user.empty() ? "" : "***@") + std::string(parts.host) +
         std::string(parts.port) + (parts.rest.empty() || parts.rest == "/" ? "" : "/***");
}

}  // namespace gradus::config
