// Requests and answers as the HTTP server hands them over: bytes, names and values, nothing of
// models. A handler sees views into what was received and answers with pieces that are written
// from where they lie.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/codec/segment.h"
#include "api/control/send_times.h"
#include "base/clock.h"

namespace gradus::api {

struct HttpHeader {
  std::string_view name;  // as sent
  std::string_view value;
};

/// Everything but what `body_owner` keeps alive is valid only until Handler::handle returns.
struct HttpRequest {
  std::string_view method;  // as sent: methods are case-sensitive
  std::string_view target;  // path and query as sent; scheme and host of an absolute form are cut
  std::span<const HttpHeader> headers;
  std::span<const std::byte> body;         // without its transfer coding
  std::shared_ptr<const void> body_owner;  // null when there is no body
  std::size_t readable_after = 0;          // bytes past the body that may be read, of any value
  TimePoint arrival{};                     // when the first byte of the request came
  std::string_view peer;                   // the client's address, without port; "": unknown

  /// The first header of that name, in any case.
  std::optional<std::string_view> header(std::string_view name) const;
  /// True when two headers of that name came with different values.
  bool header_conflicts(std::string_view name) const;
};

/// The body is `head`, then the segments, whose owners are kept until they are written. The server
/// adds Content-Length, Date and Connection.
struct HttpResponse {
  int status = 200;
  std::string_view content_type = "application/json";             // static storage
  std::vector<std::pair<std::string_view, std::string>> headers;  // names in static storage
  std::string head;
  std::vector<Segment> segments;
  std::shared_ptr<SendTimes> send_times = nullptr;  // let go when it is written; null: not wanted
};

/// `{"error":"text"}` with the status; 503 and 429 carry `Retry-After: 1`.
HttpResponse error_response(int status, std::string_view text);

/// ASCII only, as names in HTTP compare.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// Status line and headers up to the empty line, ready to be written.
/// @param at shown as Date
void append_response_head(std::string& out, const HttpResponse& response, bool keep_alive,
                          bool http_1_0, WallTime at);

/// Where a Reply's answer goes.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void send(HttpResponse response) = 0;
  /// As Reply::when_abandoned; a sink that cannot be abandoned never calls.
  virtual void when_abandoned(std::function<void()>) {}
};

/// Answers one request: call it exactly once, from any thread, now or later. It never waits for the
/// client, but may write the answer and free what it is made of before it returns. Copies share
/// the request; when the last copy goes without an answer the client gets 500.
class Reply {
 public:
  explicit Reply(std::shared_ptr<ReplySink> sink) : sink_(std::move(sink)) {}
  void operator()(HttpResponse response) const { sink_->send(std::move(response)); }
  /// Called once, on any thread, when the client closes its side before it is answered; at once if
  /// it has. Whatever is answered then may still be sent. One call a request.
  void when_abandoned(std::function<void()> call) const { sink_->when_abandoned(std::move(call)); }

 private:
  std::shared_ptr<ReplySink> sink_;
};

/// Bodies lie in buffers aligned to so many bytes, with as many readable bytes after them.
inline constexpr std::size_t kBodyBufferAlignment = 64;

class Handler {
 public:
  virtual ~Handler() = default;
  /// Where in its buffer the body shall start, < kBodyBufferAlignment: so that what follows a
  /// prefix of known size is aligned. Asked when the headers are there and the body is not, under
  /// the connection's mutex: it only looks at the request.
  virtual std::size_t body_offset(const HttpRequest&) const { return 0; }
  /// Called on one of the server's threads; must not block.
  virtual void handle(const HttpRequest& request, Reply reply) = 0;
};

}  // namespace gradus::api
