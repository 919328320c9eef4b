#include "api/http/admin.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gradus::api {

Result<Admin> Admin::open(const config::AdminConfig& config) {
  auto permission = Permission::open(config);
  if (!permission) return tl::unexpected(std::move(permission.error()));
  return Admin(std::move(*permission));
}

std::optional<HttpResponse> Admin::refusal(const HttpRequest& request) const {
  constexpr std::array<std::string_view, 3> kOfOthers = {"Origin", "Forwarded", "X-Forwarded-For"};
  Caller caller{.peer = request.peer};
  if (!request.header_conflicts("Authorization")) {
    caller.authorization = request.header("Authorization").value_or("");
  }
  caller.passed_on = std::ranges::any_of(
      kOfOthers, [&](std::string_view name) { return request.header(name).has_value(); });
  const auto refused = permission_.refusal(caller);
  if (!refused) return std::nullopt;
  HttpResponse response = error_response(refused->token_wanted ? 401 : 403, refused->text);
  if (refused->token_wanted) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace gradus::api
