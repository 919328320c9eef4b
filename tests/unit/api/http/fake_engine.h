// A way to call the routes without a socket, and the engine below them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/http/v2_routes.h"
#include "unit/api/fake_engine.h"

namespace gradus::api {

/// One call of the routes, without a socket.
class Call {
 public:
  Call(std::string_view method, std::string_view target) {
    request.method = method;
    request.target = target;
  }
  Call& with(std::string_view name, std::string_view value) {
    headers_.push_back({name, value});
    return *this;
  }
  Call& body(std::string bytes) {
    const auto owner = std::make_shared<const std::string>(std::move(bytes));
    request.body = std::as_bytes(std::span(*owner));
    request.body_owner = owner;
    return *this;
  }

  /// The answer, if it came before handle() returned.
  HttpResponse on(Handler& routes) {
    struct Sink final : ReplySink {
      void send(HttpResponse response) override { answer = std::move(response); }
      std::optional<HttpResponse> answer;
    };
    const auto sink = std::make_shared<Sink>();
    request.headers = headers_;
    routes.handle(request, Reply(sink));
    return sink->answer.value_or(HttpResponse{.status = 0});
  }

  HttpRequest request;

 private:
  std::vector<HttpHeader> headers_;
};

inline std::string body_of(const HttpResponse& response) {
  std::string body = response.head;
  for (const Segment& segment : response.segments) {
    body.append(reinterpret_cast<const char*>(segment.bytes.data()), segment.bytes.size());
  }
  return body;
}

inline std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

inline std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace gradus::api
