// An HTTP/1.1 client, made for load: one keep-alive connection without a thread of its own,
// non-blocking, one request at a time. It knows no more of HTTP than what this server sends, and
// leaves the cores to the server. The drill, the benchmark's load client and `gradus ladder` use
// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace gradus::tools {

struct HttpAnswer {
  int status = 0;
  std::string head;            // status line and headers
  std::string body;            // empty if it was not to be kept
  std::size_t body_bytes = 0;  // as its header said

  /// The value of a header, "" without it. @param name in lower case
  std::string_view header(std::string_view name) const;
  /// The level that answered (`gradus-level`).
  std::optional<int> level() const;
  /// The tensors behind the JSON of a binary answer; "" of one without.
  std::string_view tensors() const;
};

enum class Body { kKeep, kDrop };

/// Takes an answer apart as it comes.
class AnswerReader {
 public:
  /// @param body kDrop: of an answer with status 200 the body is counted only
  void reset(Body body = Body::kKeep);
  /// True once the answer is whole. kInternal: it is not understood.
  Result<bool> take(std::string_view received);
  const HttpAnswer& answer() const { return answer_; }

 private:
  Result<void> read_head();

  HttpAnswer answer_;
  bool head_read_ = false;
  bool keep_ = true;
  std::size_t body_left_ = 0;
};

class HttpConnection {
 public:
  /// Connects to that port of 127.0.0.1; kUnavailable when nobody listens there.
  static Result<HttpConnection> open(std::uint16_t port);
  /// The same for a name or an address; waits at most 10 s for each of its addresses. kUnavailable
  /// also: the name is unknown.
  static Result<HttpConnection> open(const std::string& host, std::uint16_t port);
  HttpConnection(HttpConnection&& other) noexcept;
  HttpConnection& operator=(HttpConnection&& other) noexcept;
  ~HttpConnection();

  /// For one that waits for its next request: the server has not closed it meanwhile.
  bool still_open() const;
  int fd() const { return fd_; }
  bool wants_to_write() const { return !unsent_.empty(); }

  /// Starts a request, when none is under way. @param request borrowed until its answer is whole
  Result<void> send(std::string_view request, Body body = Body::kKeep);
  /// Goes on after the socket was ready; true when the answer is whole. An error ends the use of
  /// the connection.
  Result<bool> go_on();
  const HttpAnswer& answer() const { return reader_.answer(); }

 private:
  explicit HttpConnection(int fd) : fd_(fd) {}
  Result<void> write_more();

  int fd_;
  std::string_view unsent_;
  AnswerReader reader_;
};

/// A GET or POST as bytes. @param headers each ending in \r\n
std::string http_request(std::string_view method, std::string_view path, std::string_view headers,
                         std::string_view body, std::string_view host = "127.0.0.1");

/// One request on a connection of its own. kDeadline: no whole answer by then.
Result<HttpAnswer> exchange(std::uint16_t port, std::string_view request, TimePoint deadline);
Result<HttpAnswer> exchange(HttpConnection connection, std::string_view request,
                            TimePoint deadline);

}  // namespace gradus::tools
