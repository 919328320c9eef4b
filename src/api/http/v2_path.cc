#include "api/http/v2_path.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace gradus::api {
namespace {

constexpr std::size_t kShownPath = 200;  // bytes of a path that an error repeats

tl::unexpected<Error> no_such_path(std::string_view path) {
  std::string shown(path.substr(0, kShownPath));
  if (path.size() > kShownPath) shown += "…";
  return fail(Code::kNotFound, "no such path: " + shown);
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc{} || digits.size() != 2 || end != digits.data() + 2) {
      return fail(Code::kInvalid, "malformed percent-encoding in the path");
    }
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

bool possible_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

// Cuts the first segment off `path`, which begins with a slash or is empty.
std::string_view next_segment(std::string_view& path) {
  if (path.empty()) return {};
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

}  // namespace

Result<Route> parse_route(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/v2") return Route{};
  if (path == "/v2/health/live") return Route{Endpoint::kLive, {}, {}};
  if (path == "/v2/health/ready") return Route{Endpoint::kReady, {}, {}};
  if (path == "/v2/workers") return Route{Endpoint::kWorkers, {}, {}};
  constexpr std::string_view kModels = "/v2/models";
  if (path == kModels) return Route{Endpoint::kModels, {}, {}};
  if (!path.starts_with("/v2/models/")) return no_such_path(path);

  std::string_view rest = path.substr(kModels.size());
  Route route;
  auto name = percent_decoded(next_segment(rest));
  if (!name) return tl::unexpected(std::move(name.error()));
  if (!possible_name(*name)) return fail(Code::kNotFound, "no model can have the name in the path");
  route.model = std::move(*name);

  if (rest == "/versions" || rest.starts_with("/versions/")) {
    next_segment(rest);
    const std::string_view version = next_segment(rest);
    if (version.empty() || version.find_first_not_of("0123456789") != version.npos) {
      return fail(Code::kNotFound, "a model's version is a number, in digits");
    }
    route.version = version;
  }
  if (rest.empty()) {
    route.endpoint = Endpoint::kModel;
  } else if (rest == "/ready") {
    route.endpoint = Endpoint::kModelReady;
  } else if (rest == "/ladder") {
    route.endpoint = Endpoint::kLadder;
  } else if (rest == "/infer") {
    route.endpoint = Endpoint::kInfer;
  } else {
    return no_such_path(path);
  }
  return route;
}

std::string_view allowed_methods(Endpoint endpoint) {
  if (endpoint == Endpoint::kLadder) return "GET, HEAD, POST";
  return endpoint == Endpoint::kInfer ? "POST" : "GET, HEAD";
}

}  // namespace gradus::api
