// The paths of KServe v2 that are served, and the methods each takes (Open Inference Protocol,
// inference_rest.md). Pure text: a name is only ever compared with the names of loaded models.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gradus::api {

enum class Endpoint : std::uint8_t {
  kServer,      // /v2
  kLive,        // /v2/health/live
  kReady,       // /v2/health/ready
  kModels,      // /v2/models
  kModel,       // /v2/models/{m}[/versions/{v}]
  kModelReady,  // …/ready
  kLadder,      // …/ladder
  kInfer,       // …/infer
  kWorkers,     // /v2/workers
};

struct Route {
  Endpoint endpoint = Endpoint::kServer;
  std::string model;    // percent-decoded
  std::string version;  // digits; "": the newest
};

/// @param target as in a request line; what follows `?` is ignored
/// @return kNotFound: no such path, a version that is no number, or a name that no model can have
///   (`..`, with a slash, with control characters); kInvalid: malformed percent-encoding
Result<Route> parse_route(std::string_view target);

/// `POST`, `GET, HEAD`, or all of them: the value of an Allow header.
std::string_view allowed_methods(Endpoint endpoint);

}  // namespace gradus::api
