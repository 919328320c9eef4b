#include "api/http/v2_routes.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "api/codec/content_coding.h"
#include "api/codec/infer_request.h"
#include "api/codec/infer_response.h"
#include "api/codec/ladder_command.h"
#include "api/codec/metadata.h"
#include "api/codec/status.h"
#include "base/cpu_count.h"
#include "base/log.h"

namespace gradus::api {

// What an inference request's headers say, taken out of them: they do not outlive handle().
struct V2Routes::InferHeaders {
  Coding body_coding = Coding::kIdentity;
  Coding answer_coding = Coding::kIdentity;
  std::optional<std::size_t> json_length;
  std::optional<Duration> timeout;
  int min_level = 0;
  int max_level = std::numeric_limits<int>::max();
  std::optional<config::Tier> tier;
  TimePoint arrival{};
};

namespace {

// Large bodies that may wait for a decoder; each holds its memory.
constexpr std::size_t kMostWaiting = 256;

constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

static_assert(kBodyBufferAlignment >= kBodyAlignment && kBodyBufferAlignment >= kBodyPadding,
              "the codec counts on more than the server gives");

HttpResponse json(std::string body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.head = std::move(body);
  return response;
}

HttpResponse refusal(const Error& error) {
  return error_response(http_status(error.code), error.message);
}

// The number in a header that holds digits only, in [least, most].
Result<std::optional<std::uint64_t>> number_header(const HttpRequest& request,
                                                   std::string_view name, std::uint64_t least,
                                                   std::uint64_t most) {
  const auto text = request.header(name);
  if (!text) return std::nullopt;
  if (request.header_conflicts(name)) {
    return fail(Code::kInvalid, "header " + std::string(name) + " comes twice");
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < least || value > most) {
    return fail(Code::kInvalid, "header " + std::string(name) + " is '" + std::string(*text) +
                                    "'; expected an integer in [" + std::to_string(least) + ", " +
                                    std::to_string(most) + "]");
  }
  return value;
}

Result<V2Routes::InferHeaders> read_headers(const HttpRequest& http, std::size_t max_input_size) {
  using std::chrono::milliseconds;
  constexpr auto kMostMs = std::chrono::duration_cast<milliseconds>(kLongestTimeout).count();
  constexpr std::uint64_t kMostLevel = std::numeric_limits<int>::max();
  V2Routes::InferHeaders headers;
  headers.arrival = http.arrival;
  if (const auto encoding = http.header("Content-Encoding")) {
    const auto coding = parse_content_encoding(*encoding);
    if (!coding) return tl::unexpected(coding.error());
    headers.body_coding = *coding;
  }
  headers.answer_coding = choose_coding(http.header("Accept-Encoding").value_or(""));
  const bool plain = headers.body_coding == Coding::kIdentity;
  const auto json_length =
      number_header(http, kHeaderLength, 0, plain ? http.body.size() : max_input_size);
  if (!json_length) return tl::unexpected(json_length.error());
  if (*json_length) headers.json_length = static_cast<std::size_t>(**json_length);
  const auto timeout =
      number_header(http, "gradus-timeout-ms", 1, static_cast<std::uint64_t>(kMostMs));
  if (!timeout) return tl::unexpected(timeout.error());
  if (*timeout) headers.timeout = milliseconds(**timeout);
  const auto min_level = number_header(http, "gradus-min-level", 0, kMostLevel);
  if (!min_level) return tl::unexpected(min_level.error());
  if (*min_level) headers.min_level = static_cast<int>(**min_level);
  const auto max_level = number_header(http, "gradus-max-level", 0, kMostLevel);
  if (!max_level) return tl::unexpected(max_level.error());
  if (*max_level) headers.max_level = static_cast<int>(**max_level);
  if (const auto strict = http.header("gradus-strict")) {
    if ((*strict != "true" && *strict != "false") || http.header_conflicts("gradus-strict")) {
      return fail(Code::kInvalid, "header gradus-strict is '" + std::string(*strict) +
                                      "'; expected true or false, once");
    }
    if (*strict == "true") headers.max_level = 0;
  }
  if (const auto name = http.header("gradus-tier")) {
    headers.tier = config::tier_named(*name);
    if (!headers.tier || http.header_conflicts("gradus-tier")) {
      return fail(Code::kInvalid, "header gradus-tier is '" + std::string(*name) + "'; expected " +
                                      std::string(kTierNames) + ", once");
    }
  }
  return headers;
}

// Of header and parameter the stricter holds.
Result<void> apply(const V2Routes::InferHeaders& headers, serving::Request& request) {
  request.arrival = headers.arrival;
  if (headers.timeout) {
    request.timeout = std::min(request.timeout.value_or(*headers.timeout), *headers.timeout);
  }
  request.min_level = std::max(request.min_level, headers.min_level);
  request.max_level = std::min(request.max_level, headers.max_level);
  if (headers.tier) request.tier = std::max(request.tier.value_or(*headers.tier), *headers.tier);
  if (request.min_level > request.max_level) {
    return fail(Code::kInvalid, "min_level " + std::to_string(request.min_level) +
                                    " is worse than max_level " +
                                    std::to_string(request.max_level));
  }
  return {};
}

// Decoding that takes milliseconds belongs on the decoders, so that the server's threads, which are
// few, stay free for other connections: health among them.
bool is_heavy(const V2Routes::InferHeaders& headers, std::size_t body_size) {
  constexpr std::size_t kJson = 256 << 10;  // about half a millisecond
  constexpr std::size_t kPacked = 1 << 10;  // deflate packs 1000 to 1 at best
  return headers.body_coding != Coding::kIdentity ? body_size > kPacked
                                                  : headers.json_length.value_or(body_size) > kJson;
}

Result<void> compress(Coding coding, HttpResponse& response) {
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(response.head))};
  for (const Segment& segment : response.segments) parts.push_back(segment.bytes);
  auto packed = deflate(coding, parts);
  if (!packed) return tl::unexpected(std::move(packed.error()));
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*packed));
  response.head.clear();
  response.segments.assign(1, {*owner, owner});
  response.headers.emplace_back("Content-Encoding", coding_name(coding));
  return {};
}

HttpResponse answer(const Result<serving::Response>& result, const OutputForms& forms,
                    Coding coding) {
  if (!result) return refusal(result.error());
  auto encoded = encode_infer(*result, forms);
  if (!encoded) return refusal(encoded.error());
  HttpResponse response = json(std::move(encoded->head));
  response.segments = std::move(encoded->segments);
  if (encoded->header_length) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kHeaderLength, std::to_string(*encoded->header_length));
  }
  response.headers.emplace_back("gradus-level", std::to_string(result->origin.level));
  response.headers.emplace_back("gradus-degraded", result->origin.degraded ? "true" : "false");
  if (coding != Coding::kIdentity) {
    if (auto done = compress(coding, response); !done) return refusal(done.error());
  }
  return response;
}

}  // namespace

V2Routes::V2Routes(serving::Engine& engine, const config::HttpConfig& config, std::string version,
                   Admin admin)
    : engine_(engine),
      max_input_size_(config.max_input_size),
      max_json_depth_(config.max_json_depth),
      version_(std::move(version)),
      admin_(std::move(admin)),
      decoders_("decode", usable_cpus(), kMostWaiting) {}

std::size_t V2Routes::body_offset(const HttpRequest& request) const {
  const auto length = number_header(request, kHeaderLength, 0, max_input_size_);
  return length && *length ? gradus::api::body_offset(**length) : 0;
}

void V2Routes::handle(const HttpRequest& request, Reply reply) {
  const auto route = parse_route(request.target);
  if (!route) return reply(refusal(route.error()));
  const bool ladder = route->endpoint == Endpoint::kLadder;
  const bool infers = route->endpoint == Endpoint::kInfer;
  const bool post = request.method == "POST";
  const bool get_or_head = request.method == "GET" || request.method == "HEAD";
  if (!((post && (infers || ladder)) || (get_or_head && !infers))) {
    const std::string allow(allowed_methods(route->endpoint));
    HttpResponse response = error_response(405, "this path takes " + allow + " only");
    response.headers.emplace_back("Allow", allow);
    return reply(std::move(response));
  }
  if (infers) return infer(*route, request, std::move(reply));
  reply(post ? command(*route, request) : get(*route));
}

HttpResponse V2Routes::command(const Route& route, const HttpRequest& request) {
  if (auto refused = admin_.refusal(request)) return std::move(*refused);
  auto command = decode_ladder_command(request.body);
  if (!command) return refusal(command.error());
  command->who = request.peer;
  auto ladder = engine_.command(route.model, route.version, *command);
  return ladder ? json(std::move(*ladder)) : refusal(ladder.error());
}

HttpResponse V2Routes::get(const Route& route) const {
  switch (route.endpoint) {
    case Endpoint::kServer:
      return json(server_metadata_json(version_));
    case Endpoint::kLive: {
      const bool live = engine_.live();
      return json(live_json(live), live ? 200 : 503);
    }
    case Endpoint::kReady: {
      const bool ready = engine_.ready();
      return json(ready_json(ready), ready ? 200 : 503);
    }
    case Endpoint::kModelReady: {
      const auto ready = engine_.model_ready(route.model, route.version);
      return ready ? json(model_ready_json(route.model, true)) : refusal(ready.error());
    }
    case Endpoint::kModels:
      return json(model_names_json(engine_.model_names()));
    case Endpoint::kModel: {
      const auto info = engine_.model_info(route.model, route.version);
      return info ? json(model_metadata_json(*info)) : refusal(info.error());
    }
    case Endpoint::kLadder: {
      auto ladder = engine_.ladder_json(route.model, route.version);
      return ladder ? json(std::move(*ladder)) : refusal(ladder.error());
    }
    case Endpoint::kWorkers:
      return json(engine_.workers_json());
    case Endpoint::kInfer:
      break;
  }
  return error_response(500, "internal error");
}

void V2Routes::infer(const Route& route, const HttpRequest& http, Reply reply) {
  if (http.header_conflicts("Content-Encoding")) {
    return refuse(route, Code::kInvalid, error_response(415, "header Content-Encoding comes twice"),
                  reply);
  }
  if (const auto coding = parse_content_encoding(http.header("Content-Encoding").value_or(""));
      !coding) {
    return refuse(route, Code::kInvalid, error_response(415, coding.error().message), reply);
  }
  auto headers = read_headers(http, max_input_size_);
  if (!headers) return refuse(route, headers.error(), reply);
  Body body{http.body, http.body_owner, http.readable_after};
  if (!is_heavy(*headers, body.bytes.size())) {
    return decode_and_infer(route, *headers, std::move(body), std::move(reply));
  }
  const bool taken = decoders_.try_push([this, route, headers = *headers, body, reply] {
    decode_and_infer(route, headers, body, reply);
  });
  if (!taken) {
    refuse(route, {Code::kOverloaded, "too many large requests wait to be decoded"}, reply);
  }
}

// Counted before it is answered: whoever has the answer finds it in the metrics.
void V2Routes::refuse(const Route& route, Code code, HttpResponse response, const Reply& reply) {
  engine_.refused(route.model, route.version, code);
  reply(std::move(response));
}

void V2Routes::refuse(const Route& route, const Error& error, const Reply& reply) {
  refuse(route, error.code, refusal(error), reply);
}

void V2Routes::decode_and_infer(const Route& route, const InferHeaders& headers, Body body,
                                Reply reply) {
  if (headers.body_coding != Coding::kIdentity) {
    auto plain = inflate(headers.body_coding, body.bytes, max_input_size_);
    if (!plain) {
      const bool too_large = plain.error().code == Code::kOverloaded;
      const int status = too_large ? 413 : http_status(plain.error().code);
      return refuse(route, too_large ? Code::kInvalid : plain.error().code,
                    error_response(status, plain.error().message), reply);
    }
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*plain));
    body = {*owner, owner, 0};
  }
  Result<DecodedInfer> decoded;
  if (headers.json_length == std::size_t{0}) {
    const auto info = engine_.model_info(route.model, route.version);
    if (!info) return refuse(route, info.error(), reply);
    decoded = decode_raw_infer(route.model, route.version, std::move(body), info->signature);
  } else {
    decoded = decode_infer(route.model, route.version, std::move(body), headers.json_length,
                           DecodeLimits{max_json_depth_});
  }
  if (!decoded) return refuse(route, decoded.error(), reply);
  if (auto applied = apply(headers, decoded->request); !applied) {
    return refuse(route, applied.error(), reply);
  }
  const serving::Ticket ticket =
      engine_.infer(std::move(decoded->request),
                    [reply, coding = headers.answer_coding,
                     forms = std::move(decoded->forms)](const Result<serving::Response>& result) {
                      try {
                        reply(answer(result, forms, coding));
                      } catch (const std::exception& e) {
                        log::error("http: an answer could not be written", {{"what", e.what()}});
                        reply(error_response(500, "internal error"));
                      }
                    });
  if (ticket.expired()) return;  // answered
  reply.when_abandoned([ticket] {
    if (const auto request = ticket.lock()) request->cancel();
  });
}

}  // namespace gradus::api
