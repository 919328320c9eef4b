// One keep-alive HTTP/1.1 connection of the load client, without a thread of its own: it sends one
// request at a time and tells when its answer is whole. It reads no more of an answer than status
// and Content-Length, so that the client leaves the cores to the server.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace gradus::bench {

class Connection {
 public:
  /// Connects to that port of 127.0.0.1; kUnavailable when nobody listens there.
  static Result<Connection> open(std::uint16_t port);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;
  ~Connection();

  int fd() const { return fd_; }

  /// Starts a request; only when none is under way.
  /// @param request borrowed until its answer is whole
  /// @param keep_body whether body() shall hold the answer's body
  Result<void> send(std::string_view request, bool keep_body, TimePoint now);

  /// True while the socket must also be watched for room to write.
  bool wants_to_write() const { return !unsent_.empty(); }

  /// Goes on after epoll reported the socket; true when the answer is whole.
  /// kInternal: the answer's status is not 200 (with its text), it is not understood, or the
  /// connection ended.
  Result<bool> go_on();

  TimePoint sent_at() const { return sent_at_; }
  std::size_t body_bytes() const { return body_bytes_; }  // of the last answer
  const std::string& body() const { return body_; }

 private:
  explicit Connection(int fd) : fd_(fd) {}

  Result<void> write_more();
  Result<bool> take(std::string_view received);
  Result<void> read_head();

  int fd_;
  std::string_view unsent_;
  TimePoint sent_at_{};
  std::string head_;  // of the answer, as far as it has come
  bool head_read_ = false;
  bool bad_status_ = false;
  bool keep_body_ = false;
  std::size_t body_bytes_ = 0;
  std::size_t body_left_ = 0;
  std::string body_;
};

}  // namespace gradus::bench
