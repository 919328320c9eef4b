#include "api/http/infer_routes.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "api/codec/content_coding.h"
#include "api/codec/header_value.h"
#include "api/codec/infer_request.h"
#include "api/codec/infer_response.h"
#include "api/http/answers.h"
#include "base/log.h"

namespace gradus::api {

// What an inference request's headers say, taken out of them: they do not outlive handle().
struct InferRoutes::InferHeaders {
  Coding body_coding = Coding::kIdentity;
  Coding answer_coding = Coding::kIdentity;
  std::optional<std::size_t> json_length;
  std::optional<Duration> timeout;
  int min_level = 0;
  int max_level = std::numeric_limits<int>::max();
  std::optional<config::Tier> tier;
  TimePoint arrival{};
  std::shared_ptr<Trace> trace;  // null: the request is not traced
};

namespace {

constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

static_assert(kBodyBufferAlignment >= kBodyAlignment && kBodyBufferAlignment >= kBodyPadding,
              "the codec counts on more than the server gives");

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

Result<InferRoutes::InferHeaders> read_headers(const HttpRequest& http,
                                               std::size_t max_input_size) {
  using std::chrono::milliseconds;
  constexpr auto kMostMs = std::chrono::duration_cast<milliseconds>(kLongestTimeout).count();
  constexpr std::uint64_t kMostLevel = std::numeric_limits<int>::max();
  InferRoutes::InferHeaders headers;
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
Result<void> apply(const InferRoutes::InferHeaders& headers, serving::Request& request) {
  request.arrival = headers.arrival;
  request.client_timeout = headers.timeout;
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
bool is_heavy(const InferRoutes::InferHeaders& headers, std::size_t body_size) {
  constexpr std::size_t kJson = 256 << 10;  // about half a millisecond
  constexpr std::size_t kPacked = 1 << 10;  // deflate packs 1000 to 1 at best
  return headers.body_coding != Coding::kIdentity ? body_size > kPacked
                                                  : headers.json_length.value_or(body_size) > kJson;
}

// A few bytes may stand for a tensor of any size, which is copied as the request is decoded.
bool names_region(std::span<const std::byte> body) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  return text.find("\"shared_memory_region\"") != text.npos;
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

Result<HttpResponse> answer(Result<serving::Response> result, const OutputForms& forms,
                            const OutputWishes& wishes, Coding coding) {
  if (!result) return tl::unexpected(std::move(result.error()));
  if (auto done = fulfil(wishes, *result); !done) return tl::unexpected(std::move(done.error()));
  auto encoded = encode_infer(*result, forms, wishes);
  if (!encoded) return tl::unexpected(std::move(encoded.error()));
  HttpResponse response = json_answer(std::move(encoded->head));
  response.segments = std::move(encoded->segments);
  if (encoded->header_length) {
    response.content_type = "application/octet-stream";
    response.headers.emplace_back(kHeaderLength, std::to_string(*encoded->header_length));
  }
  response.headers.emplace_back("gradus-level", std::to_string(result->origin.level));
  response.headers.emplace_back("gradus-variant", header_value(result->origin.variant));
  response.headers.emplace_back("gradus-degraded", result->origin.degraded ? "true" : "false");
  if (coding != Coding::kIdentity) {
    if (auto done = compress(coding, response); !done) {
      return tl::unexpected(std::move(done.error()));
    }
  }
  return response;
}

void time_sending(const std::shared_ptr<Trace>& trace, HttpResponse& response) {
  if (trace) response.send_times = Trace::send_times(trace, "HTTP_SEND_START", "HTTP_SEND_END");
}

}  // namespace

InferRoutes::InferRoutes(serving::Engine& engine, const config::HttpConfig& config,
                         serving::RunLane& decoders, std::shared_ptr<Control> control)
    : engine_(engine),
      max_input_size_(config.max_input_size),
      limits_{.max_json_depth = config.max_json_depth,
              .shared = {control->shared_memory.get(), config.max_input_size}},
      decoders_(decoders),
      control_(std::move(control)) {}

std::vector<Path> InferRoutes::paths() {
  return {{"/v2/models/{model}[/versions/{version}]/infer", nullptr,
           [this](const PathNames& names, const HttpRequest& request, Reply reply) {
             infer(names, request, std::move(reply));
           }}};
}

std::size_t InferRoutes::body_offset(const HttpRequest& request) const {
  const auto length = number_header(request, kHeaderLength, 0, max_input_size_);
  return length && *length ? gradus::api::body_offset(**length) : 0;
}

void InferRoutes::infer(const PathNames& names, const HttpRequest& http, Reply reply) {
  const auto trace = control_->tracer->sample(names.model);
  if (trace) {
    trace->about(names.version, "");
    trace->stamp("HTTP_RECV_START", http.arrival);
    trace->stamp("HTTP_RECV_END", steady_clock().now());
  }
  if (http.header_conflicts("Content-Encoding")) {
    return refuse(names, {Code::kInvalid, "header Content-Encoding comes twice"}, reply, trace,
                  415);
  }
  if (const auto coding = parse_content_encoding(http.header("Content-Encoding").value_or(""));
      !coding) {
    return refuse(names, {Code::kInvalid, coding.error().message}, reply, trace, 415);
  }
  auto headers = read_headers(http, max_input_size_);
  if (!headers) return refuse(names, headers.error(), reply, trace);
  headers->trace = trace;
  Body body{http.body, http.body_owner, http.readable_after};
  const bool packed = headers->body_coding != Coding::kIdentity;
  const bool copies = control_->shared_memory && (packed || names_region(body.bytes));
  if (!copies && !is_heavy(*headers, body.bytes.size())) {
    return decode_and_infer(names, *headers, std::move(body), std::move(reply));
  }
  const bool taken = decoders_.try_push([this, names, headers = *headers, body, reply] {
    decode_and_infer(names, headers, body, reply);
  });
  if (!taken) {
    refuse(names, {Code::kOverloaded, "too many large requests wait to be decoded"}, reply, trace);
  }
}

// Counted before it is answered: whoever has the answer finds it in the metrics.
void InferRoutes::refuse(const PathNames& names, const Error& error, const Reply& reply,
                         const std::shared_ptr<Trace>& trace, std::optional<int> status) {
  engine_.refused(names.model, names.version, error.code);
  if (trace) trace->refused(error, steady_clock().now());
  HttpResponse response = status ? error_response(*status, error.message) : refusal(error);
  time_sending(trace, response);
  reply(std::move(response));
}

void InferRoutes::decode_and_infer(const PathNames& names, const InferHeaders& headers, Body body,
                                   Reply reply) {
  if (headers.body_coding != Coding::kIdentity) {
    auto plain = inflate(headers.body_coding, body.bytes, max_input_size_);
    if (!plain && plain.error().code == Code::kOverloaded) {  // too large
      return refuse(names, {Code::kInvalid, plain.error().message}, reply, headers.trace, 413);
    }
    if (!plain) return refuse(names, plain.error(), reply, headers.trace);
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*plain));
    body = {*owner, owner, 0};
  }
  const Body whole = headers.trace ? body : Body{};
  Result<DecodedInfer> decoded;
  if (headers.json_length == std::size_t{0}) {
    const auto info = engine_.model_info(names.model, names.version);
    if (!info) return refuse(names, info.error(), reply, headers.trace);
    decoded = decode_raw_infer(names.model, names.version, std::move(body), info->signature);
  } else {
    decoded =
        decode_infer(names.model, names.version, std::move(body), headers.json_length, limits_);
  }
  if (headers.trace) {
    headers.trace->about(names.version, decoded ? decoded->request.id
                                                : request_id(whole, headers.json_length, limits_));
  }
  if (!decoded) return refuse(names, decoded.error(), reply, headers.trace);
  if (auto applied = apply(headers, decoded->request); !applied) {
    return refuse(names, applied.error(), reply, headers.trace);
  }
  if (auto known = look_up_model(engine_, decoded->request, decoded->wishes); !known) {
    return refuse(names, known.error(), reply, headers.trace);
  }
  if (headers.trace) headers.trace->stamp("REQUEST_START", steady_clock().now());
  const serving::Ticket ticket =
      engine_.infer(std::move(decoded->request),
                    [reply, coding = headers.answer_coding, forms = std::move(decoded->forms),
                     wishes = std::move(decoded->wishes),
                     trace = headers.trace](Result<serving::Response> result) {
                      try {
                        if (trace) trace->answered(result, steady_clock().now());
                        auto made = answer(std::move(result), forms, wishes, coding);
                        if (trace && !made) trace->failed(made.error());
                        HttpResponse response = made ? std::move(*made) : refusal(made.error());
                        time_sending(trace, response);
                        reply(std::move(response));
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
