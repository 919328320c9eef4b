#include "tools/http_client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace gradus::tools {
namespace {

constexpr std::size_t kMostHead = 16384;
constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

std::string errno_text(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  std::string wanted = "\r\n" + std::string(name) + ":";
  const auto found =
      std::search(head.begin(), head.end(), wanted.begin(), wanted.end(), [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
      });
  if (found == head.end()) return {};
  std::string_view value = head;
  value.remove_prefix(static_cast<std::size_t>(found - head.begin()) + wanted.size());
  value = value.substr(0, value.find('\r'));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

std::optional<int> HttpAnswer::level() const { return number<int>(header("gradus-level")); }

std::string_view HttpAnswer::tensors() const {
  const auto json_bytes = number<std::size_t>(header("inference-header-content-length"));
  if (!json_bytes || *json_bytes > body.size()) return {};
  return std::string_view(body).substr(*json_bytes);
}

void AnswerReader::reset(Body body) {
  answer_.status = 0;
  answer_.head.clear();
  answer_.body.clear();
  answer_.body_bytes = 0;
  head_read_ = false;
  keep_ = body == Body::kKeep;
  body_left_ = 0;
}

Result<bool> AnswerReader::take(std::string_view received) {
  if (!head_read_) {
    const std::size_t before = answer_.head.size();
    answer_.head.append(received);
    const std::size_t end = answer_.head.find(kHeadEnd);
    if (end == std::string::npos) {
      if (answer_.head.size() > kMostHead) {
        return fail(Code::kInternal, "an answer's header is over 16384 bytes");
      }
      return false;
    }
    answer_.head.resize(end + kHeadEnd.size());
    received.remove_prefix(answer_.head.size() - before);
    if (const auto read = read_head(); !read) return tl::unexpected(read.error());
  }
  if (received.size() > body_left_) {
    return fail(Code::kInternal, "an answer is longer than its Content-Length says");
  }
  if (keep_) answer_.body.append(received);
  body_left_ -= received.size();
  return body_left_ == 0;
}

Result<void> AnswerReader::read_head() {
  head_read_ = true;
  const std::string_view head = answer_.head;
  const auto status = head.starts_with("HTTP/1.1 ") ? number<int>(head.substr(9, 3)) : std::nullopt;
  const auto length = number<std::size_t>(answer_.header("content-length"));
  if (!status) return fail(Code::kInternal, "an answer without a status: " + answer_.head);
  if (!length) return fail(Code::kInternal, "an answer without a Content-Length: " + answer_.head);
  answer_.status = *status;
  keep_ = keep_ || *status != 200;
  answer_.body_bytes = body_left_ = *length;
  return {};
}

Result<HttpConnection> HttpConnection::open(std::uint16_t port) {
  HttpConnection made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.fd_ < 0) return fail(Code::kUnavailable, errno_text("socket"));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(made.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Code::kUnavailable,
                errno_text(("connecting to port " + std::to_string(port)).c_str()));
  }
  const int on = 1;
  ::setsockopt(made.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

Result<HttpConnection> HttpConnection::open(const std::string& host, std::uint16_t port) {
  const std::string where = host + " port " + std::to_string(port);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) return fail(Code::kUnavailable, where + ": " + ::gai_strerror(failed));
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  Result<HttpConnection> opened = fail(Code::kUnavailable, where + ": no address");
  for (const addrinfo* one = found; one != nullptr && !opened; one = one->ai_next) {
    HttpConnection made(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::setsockopt(made.fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // of connect() too
    if (made.fd_ >= 0 && ::connect(made.fd_, one->ai_addr, one->ai_addrlen) == 0) {
      opened = std::move(made);
    } else {
      opened = fail(Code::kUnavailable, errno_text(("connecting to " + where).c_str()));
    }
  }
  ::freeaddrinfo(found);
  return opened;
}

HttpConnection::HttpConnection(HttpConnection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      unsent_(other.unsent_),
      reader_(std::move(other.reader_)) {}

HttpConnection& HttpConnection::operator=(HttpConnection&& other) noexcept {
  std::swap(fd_, other.fd_);
  unsent_ = other.unsent_;
  reader_ = std::move(other.reader_);
  return *this;
}

HttpConnection::~HttpConnection() {
  if (fd_ >= 0) ::close(fd_);
}

bool HttpConnection::still_open() const {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

Result<void> HttpConnection::send(std::string_view request, Body body) {
  unsent_ = request;
  reader_.reset(body);
  return write_more();
}

Result<void> HttpConnection::write_more() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail(Code::kUnavailable, errno_text("sending a request"));
    unsent_.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<bool> HttpConnection::go_on() {
  if (const auto written = write_more(); !written) return tl::unexpected(written.error());
  std::array<char, kReadBytes> buffer;  // not initialized: that would cost more than the reading
  for (;;) {
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Code::kUnavailable, errno_text("reading an answer"));
    if (got == 0) return fail(Code::kUnavailable, "the server closed the connection");
    const auto size = static_cast<std::size_t>(got);
    const auto whole = reader_.take({buffer.data(), size});
    if (whole && *whole && wants_to_write()) {
      return fail(Code::kInternal, "an answer came before the request was sent");
    }
    if (!whole || *whole || size < buffer.size()) return whole;
  }
}

std::string http_request(std::string_view method, std::string_view path, std::string_view headers,
                         std::string_view body, std::string_view host) {
  std::string request(method);
  request.append(" ").append(path).append(" HTTP/1.1\r\nHost: ").append(host).append("\r\n");
  request.append(headers);
  if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return request.append("\r\n").append(body);
}

Result<HttpAnswer> exchange(std::uint16_t port, std::string_view request, TimePoint deadline) {
  auto connection = HttpConnection::open(port);
  if (!connection) return tl::unexpected(connection.error());
  return exchange(std::move(*connection), request, deadline);
}

Result<HttpAnswer> exchange(HttpConnection connection, std::string_view request,
                            TimePoint deadline) {
  if (const auto sent = connection.send(request); !sent) return tl::unexpected(sent.error());
  for (;;) {
    const auto whole = connection.go_on();
    if (!whole) return tl::unexpected(whole.error());
    if (*whole) return connection.answer();
    const double left_ms = to_ms(deadline - steady_clock().now());
    if (left_ms <= 0) return fail(Code::kDeadline, "no answer in time");
    const int events = POLLIN | (connection.wants_to_write() ? POLLOUT : 0);
    pollfd socket{connection.fd(), static_cast<short>(events), 0};
    ::poll(&socket, 1, static_cast<int>(std::min(left_ms, 1e6)) + 1);
  }
}

}  // namespace gradus::tools
