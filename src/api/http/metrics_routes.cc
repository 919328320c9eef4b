#include "api/http/metrics_routes.h"

#include <string_view>
#include <utility>

namespace gradus::api {

void MetricsRoutes::handle(const HttpRequest& request, Reply reply) {
  if (request.target.substr(0, request.target.find('?')) != "/metrics") {
    return reply(error_response(404, "no such path; there is /metrics"));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse response = error_response(405, "this path takes GET, HEAD only");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return reply(std::move(response));
  }
  HttpResponse response;
  response.content_type = metrics::kContentType;
  response.head = engine_.metrics_text(receivers_());
  reply(std::move(response));
}

}  // namespace gradus::api
