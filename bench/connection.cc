#include "connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "files.h"

namespace gradus::bench {
namespace {

constexpr std::size_t kMostHead = 8192;
constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kGood = "HTTP/1.1 200 ";

// Shared by all connections: bodies are dropped as they come, the cache keeps it warm.
std::array<char, kReadBytes> read_buffer;

std::string errno_text(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// The value of the first header of that name; `name` in lower case, with its colon.
std::string_view header_value(std::string_view head, std::string_view name) {
  const auto found =
      std::search(head.begin(), head.end(), name.begin(), name.end(),
                  [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  if (found == head.end()) return {};
  std::string_view value =
      head.substr(static_cast<std::size_t>(found - head.begin()) + name.size());
  value = value.substr(0, value.find('\r'));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

}  // namespace

Result<Connection> Connection::open(std::uint16_t port) {
  Connection made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
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

Connection::Connection(Connection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      unsent_(other.unsent_),
      sent_at_(other.sent_at_),
      head_(std::move(other.head_)),
      head_read_(other.head_read_),
      bad_status_(other.bad_status_),
      keep_body_(other.keep_body_),
      body_bytes_(other.body_bytes_),
      body_left_(other.body_left_),
      body_(std::move(other.body_)) {}

Connection::~Connection() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> Connection::send(std::string_view request, bool keep_body, TimePoint now) {
  unsent_ = request;
  keep_body_ = keep_body;
  sent_at_ = now;
  head_.clear();
  body_.clear();
  head_read_ = bad_status_ = false;
  body_bytes_ = body_left_ = 0;
  return write_more();
}

Result<void> Connection::write_more() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail(Code::kInternal, errno_text("sending a request"));
    unsent_.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<bool> Connection::go_on() {
  if (const auto written = write_more(); !written) return tl::unexpected(written.error());
  for (;;) {
    const ssize_t got = ::recv(fd_, read_buffer.data(), read_buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Code::kInternal, errno_text("reading an answer"));
    if (got == 0) return fail(Code::kInternal, "the server closed the connection within a request");
    const auto size = static_cast<std::size_t>(got);
    const auto whole = take({read_buffer.data(), size});
    if (!whole || *whole || size < read_buffer.size()) return whole;
  }
}

Result<bool> Connection::take(std::string_view received) {
  if (!head_read_) {
    const std::size_t before = head_.size();
    head_.append(received.substr(0, kMostHead - before));
    const std::size_t overlap = std::min(before, kHeadEnd.size() - 1);
    const std::size_t end = head_.find(kHeadEnd, before - overlap);
    if (end == std::string::npos) {
      if (head_.size() == kMostHead) return fail(Code::kInternal, "an answer's header is too long");
      return false;
    }
    head_.resize(end + kHeadEnd.size());
    received.remove_prefix(head_.size() - before);
    if (const auto read = read_head(); !read) return tl::unexpected(read.error());
  }
  if (received.size() > body_left_) {
    return fail(Code::kInternal, "an answer is longer than its Content-Length says");
  }
  if (keep_body_) body_.append(received);
  body_left_ -= received.size();
  if (body_left_ > 0) return false;
  if (bad_status_) {
    return fail(Code::kInternal, head_.substr(0, head_.find('\r')) + ": " + body_);
  }
  if (!unsent_.empty()) return fail(Code::kInternal, "an answer came before the request was sent");
  return true;
}

Result<void> Connection::read_head() {
  head_read_ = true;
  bad_status_ = !head_.starts_with(kGood);
  keep_body_ = keep_body_ || bad_status_;
  const auto length = parse_number<std::size_t>(header_value(head_, "\r\ncontent-length:"));
  if (!length) {
    return fail(Code::kInternal, "an answer without a Content-Length: " + head_);
  }
  body_bytes_ = body_left_ = *length;
  return {};
}

}  // namespace gradus::bench
