// Addresses that the server itself calls: which are good, and how they are shown.
#pragma once
#include <string>
#include <string_view>

namespace gradus::config {

/// `http://` or `https://`, a host, perhaps a port and a path; no blank.
bool is_http_url(std::string_view text);
inline constexpr const char* kHttpUrl = "an http:// or https:// URL";

/// For people: names and passwords, paths and queries may be secrets, so of
/// `https://user:word@host:9000/hooks/T0K3N` it leaves `https://***@host:9000/***`.
std::string masked_url(std::string_view url);

}  // namespace gradus::config
