// Who may change how the server behaves: whoever has the token, or is on this machine, as far as
// the operator allowed it; nobody unless he did. Whoever may reach the port may ask.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/server_config.h"

namespace gradus::api {

/// 127.0.0.0/8 or ::1, also as ::ffff:127.0.0.1.
bool is_loopback(std::string_view address);

/// How long it takes tells nothing of where they differ.
bool same_secret(std::string_view given, std::string_view secret);

/// Who asks, as its transport knows it.
struct Caller {
  std::string_view peer;           // address without port; "": unknown
  std::string_view authorization;  // "": none, or several that differ
  bool passed_on = false;          // it came through a browser's page or a proxy
};

class Permission {
 public:
  /// Nobody may.
  Permission() = default;
  /// Reads the token's file, if there is one: its only line.
  /// @return kInvalid: it cannot be read, others can read it too, or it holds no token
  static Result<Permission> open(const config::AdminConfig& config);

  struct Refused {
    bool token_wanted = false;  // it would do
    std::string_view text;      // what to do
  };
  /// Nothing: the caller may. What was passed on is not from this machine, whatever its address
  /// says.
  std::optional<Refused> refusal(const Caller& caller) const;

 private:
  std::string token_;  // empty: there is none
  bool loopback_ = false;
};

}  // namespace gradus::api
