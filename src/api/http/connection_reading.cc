// How a connection receives: a header, then a body of either form.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "api/http/connection.h"

namespace gradus::api {
namespace {

constexpr std::size_t kFirstChunkRoom = 16 << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

Connection::Io Connection::receive(void* to, std::size_t size, std::size_t& received) {
  for (;;) {
    const ssize_t got = ::recv(descriptor_, to, size, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN ? Io::kLater : Io::kFailed;
    received = static_cast<std::size_t>(got);
    return got == 0 ? Io::kEnd : Io::kDone;
  }
}

// More of a header, or of a chunked body.
void Connection::read() {
  if (begin_ > 0) {
    std::memmove(in_.get(), in_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::size_t received = 0;
  switch (receive(in_.get() + end_, in_capacity_ - end_, received)) {
    case Io::kDone:
      wait_ended_ = false;
      end_ += received;
      if (state_ == State::kChunkedBody) return take_chunks();
      if (state_ == State::kIdle) begin_request();
      return parse_header();
    case Io::kLater:
      return wait_ended_ ? time_out() : await_readable();
    case Io::kEnd:
      if (state_ == State::kHeader) return refuse(400, "the request ended inside its header");
      if (state_ == State::kChunkedBody) {
        return refuse(400, "the request ended inside its chunked body, after " +
                               std::to_string(body_have_) + " bytes");
      }
      return close();
    case Io::kFailed:
      return close();
  }
}

void Connection::begin_request() {
  state_ = State::kHeader;
  request_ = {};
  request_.arrival = core_->clock.now();
  request_.peer = peer_;
  set_deadline(core_->config.header_timeout);
}

void Connection::parse_header() {
  std::size_t taken = 0;
  const auto progress = parser_.feed(pending(), taken);
  begin_ += taken;
  switch (progress) {
    case RequestParser::Progress::kHeader:
      return begin_body();
    case RequestParser::Progress::kRefused:
      return refuse(parser_.refusal().status, parser_.refusal().text);
    default:
      return await_readable();
  }
}

bool Connection::reserve_body(std::size_t size) {
  body_ = core_->pool.acquire(body_start_ + size + kBodyBufferAlignment);
  if (body_.owner) return true;
  refuse(503, "no memory left for a body of " + std::to_string(size) + " bytes");
  return false;
}

void Connection::begin_body() {
  request_.method = parser_.method();
  request_.target = parser_.target();
  request_.headers = parser_.headers();
  body_have_ = 0;
  body_size_ = parser_.content_length();
  const bool chunked = parser_.chunked();
  if (!chunked && body_size_ == 0) return begin_handling();

  body_start_ = core_->handler.body_offset(request_) % kBodyBufferAlignment;
  if (!reserve_body(chunked ? kFirstChunkRoom : body_size_)) return;
  state_ = chunked ? State::kChunkedBody : State::kBody;
  set_deadline(core_->config.body_timeout);
  if (parser_.expects_continue() && pending().empty()) {
    out_.add(kContinue);
    return flush();
  }
  chunked ? take_chunks() : read_body();
}

// A body of known length goes straight to where it stays; only what came along with the header is
// copied there.
void Connection::read_body() {
  std::byte* const at = body_.data + body_start_;
  const std::size_t ahead = std::min(body_size_ - body_have_, pending().size());
  if (ahead > 0) std::memcpy(at + body_have_, pending().data(), ahead);
  begin_ += ahead;
  body_have_ += ahead;
  std::size_t received = 0;
  Io io = Io::kDone;
  if (body_have_ < body_size_) io = receive(at + body_have_, body_size_ - body_have_, received);
  body_have_ += received;
  switch (io) {
    case Io::kDone:
      return body_have_ == body_size_ ? begin_handling() : await_readable();
    case Io::kLater:
      return await_readable();
    case Io::kEnd:
      return refuse(400, "the request's body ended after " + std::to_string(body_have_) + " of " +
                             std::to_string(body_size_) + " bytes");
    case Io::kFailed:
      return close();
  }
}

void Connection::take_chunks() {
  for (;;) {
    const std::size_t used = body_start_ + body_have_;
    std::size_t taken = 0;
    std::size_t written = 0;
    const auto progress = parser_.feed_chunked(
        pending(), taken, {body_.data + used, body_.capacity - kBodyBufferAlignment - used},
        written);
    begin_ += taken;
    body_have_ += written;
    switch (progress) {
      case RequestParser::Progress::kDone:
        return begin_handling();
      case RequestParser::Progress::kRefused:
        return refuse(parser_.refusal().status, parser_.refusal().text);
      case RequestParser::Progress::kNeedRoom: {
        const worker::PoolBuffer full = std::exchange(body_, {});
        if (!reserve_body(2 * full.capacity)) return;
        std::memcpy(body_.data + body_start_, full.data + body_start_, body_have_);
        break;
      }
      default:
        if (pending().size() == in_capacity_) {
          return refuse(431, "a chunk's header or the trailer is too large");
        }
        return await_readable();
    }
  }
}

}  // namespace gradus::api
