// Who may change how the server behaves, of those who ask over HTTP (control/permission.h).
#pragma once
#include <optional>

#include "api/control/permission.h"
#include "api/http/http_message.h"
#include "base/result.h"
#include "config/server_config.h"

namespace gradus::api {

class Admin {
 public:
  /// Nobody may.
  Admin() = default;
  explicit Admin(Permission permission) : permission_(std::move(permission)) {}
  /// As Permission::open().
  static Result<Admin> open(const config::AdminConfig& config);

  /// Nothing: the request may change the state. Else the answer: 401 or 403.
  std::optional<HttpResponse> refusal(const HttpRequest& request) const;

 private:
  Permission permission_;
};

}  // namespace gradus::api
