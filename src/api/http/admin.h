// Who may change how the server behaves: whoever has the token, or is on this machine, as far as
// the operator allowed it; nobody unless he did. Whoever may reach the port may ask.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http_message.h"
#include "base/result.h"
#include "config/server_config.h"

namespace gradus::api {

/// 127.0.0.0/8 or ::1, also as ::ffff:127.0.0.1.
bool is_loopback(std::string_view address);

/// How long it takes tells nothing of where they differ.
bool same_secret(std::string_view given, std::string_view secret);

class Admin {
 public:
  /// Nobody may.
  Admin() = default;
  /// Reads the token's file, if there is one: its only line.
  /// @return kInvalid: it cannot be read, others can read it too, or it holds no token
  static Result<Admin> open(const config::AdminConfig& config);

  /// Nothing: the request may change the state. Else the answer: 401 or 403. What came through a
  /// browser's page or a proxy is not from this machine, whatever its address says.
  std::optional<HttpResponse> refusal(const HttpRequest& request) const;

 private:
  std::string token_;  // empty: there is none
  bool loopback_ = false;
};

}  // namespace gradus::api
