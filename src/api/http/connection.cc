#include "api/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "api/http/exchange.h"
#include "base/log.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;

constexpr std::size_t kReadAhead = 4 << 10;  // beyond the largest header
constexpr std::size_t kFirstChunkRoom = 16 << 10;
constexpr Duration kLingerSilence = 2s;  // without a byte from the client
constexpr Duration kLingerTotal = 10s;
constexpr Duration kDrainIdle = 1s;  // an idle connection's time once a drain has begun
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string ms_text(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

// A buffer sequence that costs nothing to copy, as Asio does.
struct WriteView {
  using value_type = asio::const_buffer;
  using const_iterator = const asio::const_buffer*;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
  const_iterator first, last;
};

}  // namespace

struct Connection::Stream {
  Stream(asio::io_context& io, int descriptor) : socket(asio::make_strand(io)) {
    ErrorCode ec;
    socket.assign(asio::ip::tcp::v4(), descriptor, ec);  // v6 too: only the number counts
    if (ec) ::close(descriptor);                         // then the first read fails
  }
  std::string peer() const {
    ErrorCode ec;
    const auto endpoint = socket.remote_endpoint(ec);
    return ec ? std::string() : endpoint.address().to_string();
  }
  auto strand() { return socket.get_executor(); }

  static Io outcome(const ErrorCode& ec) {
    return !ec ? Io::kDone : ec == asio::error::eof ? Io::kEnd : Io::kFailed;
  }

  asio::basic_stream_socket<asio::ip::tcp, Strand> socket;
  std::vector<asio::const_buffer> out;  // what is left to write begins at `next`
  std::size_t next = 0;
};

Connection::Connection(std::shared_ptr<ServerCore> core, int descriptor)
    : core_(std::move(core)),
      stream_(std::make_unique<Stream>(core_->io(), descriptor)),
      parser_(core_->limits),
      in_capacity_(core_->limits.header_bytes + kReadAhead),
      in_(std::make_unique_for_overwrite<char[]>(in_capacity_)),
      peer_(stream_->peer()) {
  clear_deadline();
}

Connection::~Connection() = default;

void Connection::start() {
  asio::post(stream_->strand(), [self = shared_from_this()] {
    self->set_deadline(self->core_->config.header_timeout);
    self->read();
  });
}

void Connection::start_refusing() {
  asio::post(stream_->strand(), [self = shared_from_this()] {
    self->refuse(503, "no connection left: the limit of open connections is reached");
  });
}

bool Connection::busy() const {
  const State state = state_;
  return state != State::kIdle && state != State::kLingering && state != State::kClosed;
}

void Connection::post_overdue() {
  asio::post(stream_->strand(), [self = shared_from_this()] { self->overdue(); });
}

void Connection::post_drain() {
  asio::post(stream_->strand(), [self = shared_from_this()] {
    if (self->idle() && self->deadline() > self->core_->clock.now() + kDrainIdle) {
      self->set_deadline(kDrainIdle);
    }
  });
}

void Connection::post_close_idle() {
  asio::post(stream_->strand(), [self = shared_from_this()] {
    ErrorCode ec;
    if (self->idle() && self->stream_->socket.available(ec) == 0) self->end_wait();
  });
}

void Connection::post_abort() {
  asio::post(stream_->strand(), [self = shared_from_this()] { self->close(); });
}

// The handler in the queue must not own the connection: nobody may be left to run it.
void Connection::post_reply(HttpResponse response) {
  asio::dispatch(stream_->strand(),
                 [weak = weak_from_this(), response = std::move(response)]() mutable {
                   if (const auto self = weak.lock()) self->on_reply(std::move(response));
                 });
}

void Connection::set_deadline(Duration from_now) {
  deadline_ = (core_->clock.now() + from_now).time_since_epoch().count();
}

void Connection::overdue() {
  if (core_->clock.now() < deadline()) return;  // it moved meanwhile
  switch (state_.load()) {
    case State::kIdle:
    case State::kHeader:
    case State::kBody:
    case State::kChunkedBody:
      end_wait();
      return;
    case State::kWriting:
    case State::kLingering:
      close();
      return;
    case State::kHandling:
    case State::kClosed:
      return;
  }
}

// The pending read is cancelled rather than the socket closed: if a request has just been
// received, its handler comes with bytes and not with an error.
void Connection::end_wait() {
  wait_ended_ = true;
  clear_deadline();
  ErrorCode ignored;
  stream_->socket.cancel(ignored);
}

void Connection::time_out() {
  wait_ended_ = false;
  switch (state_.load()) {
    case State::kHeader:
      refuse(408,
             "the request's header did not arrive within " + ms_text(core_->config.header_timeout));
      return;
    case State::kBody:
    case State::kChunkedBody:
      refuse(408,
             "the request's body did not arrive within " + ms_text(core_->config.body_timeout));
      return;
    default:
      close();
  }
}

void Connection::read() {
  if (begin_ > 0) {
    std::memmove(in_.get(), in_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  stream_->socket.async_read_some(asio::buffer(in_.get() + end_, in_capacity_ - end_),
                                  [self = shared_from_this()](const ErrorCode& ec, std::size_t n) {
                                    self->on_read(Stream::outcome(ec), n);
                                  });
}

void Connection::on_read(Io io, std::size_t n) {
  const State state = state_;
  if (state == State::kClosed) return;
  if (wait_ended_ && (io != Io::kDone || state != State::kIdle)) return time_out();
  wait_ended_ = false;
  if (io != Io::kDone) {
    if (io == Io::kEnd && state == State::kHeader) {
      return refuse(400, "the request ended inside its header");
    }
    if (io == Io::kEnd && state == State::kChunkedBody) {
      return refuse(400, "the request ended inside its chunked body, after " +
                             std::to_string(body_have_) + " bytes");
    }
    return close();
  }
  end_ += n;
  if (state == State::kChunkedBody) return take_chunks();
  parse_header();
}

void Connection::parse_header() {
  if (state_ == State::kIdle) {
    state_ = State::kHeader;
    request_ = {};
    request_.arrival = core_->clock.now();
    request_.peer = peer_;
    set_deadline(core_->config.header_timeout);
  }
  std::size_t taken = 0;
  const auto progress = parser_.feed(pending(), taken);
  begin_ += taken;
  switch (progress) {
    case RequestParser::Progress::kHeader:
      return begin_body();
    case RequestParser::Progress::kRefused:
      return refuse(parser_.refusal().status, parser_.refusal().text);
    default:
      return read();
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
  if (!chunked && body_size_ == 0) return dispatch();

  body_start_ = core_->handler.body_offset(request_) % kBodyBufferAlignment;
  if (!reserve_body(chunked ? kFirstChunkRoom : body_size_)) return;
  state_ = chunked ? State::kChunkedBody : State::kBody;
  set_deadline(core_->config.body_timeout);
  if (parser_.expects_continue() && pending().empty()) return send_continue();
  chunked ? take_chunks() : read_body();
}

void Connection::send_continue() {
  asio::async_write(stream_->socket, asio::buffer(kContinue),
                    [self = shared_from_this()](const ErrorCode& ec, std::size_t) {
                      if (self->state_ == State::kClosed) return;
                      if (self->wait_ended_) return self->time_out();
                      if (ec) return self->close();
                      self->state_ == State::kBody ? self->read_body() : self->take_chunks();
                    });
}

// A body of known length goes straight to where it stays; only what came along with the header is
// copied there.
void Connection::read_body() {
  std::byte* const at = body_.data + body_start_ + body_have_;
  const std::size_t missing = body_size_ - body_have_;
  if (const std::size_t n = std::min(missing, pending().size()); n > 0) {
    std::memcpy(at, pending().data(), n);
    begin_ += n;
    body_have_ += n;
    return n == missing ? dispatch() : read_body();
  }
  stream_->socket.async_read_some(asio::buffer(at, missing),
                                  [self = shared_from_this()](const ErrorCode& ec, std::size_t n) {
                                    self->on_body_read(Stream::outcome(ec), n);
                                  });
}

void Connection::on_body_read(Io io, std::size_t n) {
  if (state_ == State::kClosed) return;
  if (wait_ended_) return time_out();
  if (io == Io::kEnd) {
    return refuse(400, "the request's body ended after " + std::to_string(body_have_) + " of " +
                           std::to_string(body_size_) + " bytes");
  }
  if (io == Io::kFailed) return close();
  body_have_ += n;
  body_have_ == body_size_ ? dispatch() : read_body();
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
        return dispatch();
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
        return read();
    }
  }
}

void Connection::dispatch() {
  state_ = State::kHandling;
  clear_deadline();
  if (body_have_ > 0) {
    request_.body = {body_.data + body_start_, body_have_};
    request_.readable_after = kBodyBufferAlignment;
    request_.body_owner = std::move(body_.owner);
  }
  body_ = {};
  const auto exchange = std::make_shared<Exchange>(core_, weak_from_this());
  try {
    core_->handler.handle(request_, Reply(exchange));
  } catch (const std::exception& e) {
    log::error("http: a handler threw", {{"what", e.what()}});
    exchange->send(error_response(500, "internal error"));
  }
  request_.body = {};
  request_.body_owner.reset();
  if (state_ != State::kHandling) return;
  exchange_ = exchange;
}

void Connection::post_watch() {
  asio::post(stream_->strand(), [self = shared_from_this()] {
    if (self->handling()) self->watch();
  });
}

// One wait outlives the requests that are answered before the client sends or closes anything.
void Connection::watch() {
  if (std::exchange(watching_, true)) return;
  stream_->socket.async_wait(asio::socket_base::wait_read,
                             [self = shared_from_this()](const ErrorCode& ec) {
                               self->watching_ = false;
                               if (!ec) self->on_watched();
                             });
}

// What a client sends ahead stays where it is, and hides its end until it is read.
void Connection::on_watched() {
  if (state_ != State::kHandling) return;
  char byte = 0;
  const ssize_t got = ::recv(stream_->socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (!gone) return;
  if (const auto exchange = exchange_.lock()) exchange->abandon();
}

void Connection::on_reply(HttpResponse response) {
  if (state_ != State::kHandling) return;  // closed meanwhile
  write(std::move(response), parser_.keep_alive() && !core_->draining);
}

void Connection::refuse(int status, std::string_view text) {
  body_ = {};
  write(error_response(status, text), false);
}

void Connection::write(HttpResponse response, bool keep_alive) {
  state_ = State::kWriting;
  keep_alive_ = keep_alive;
  response_ = std::move(response);
  out_.clear();
  append_response_head(out_, response_, keep_alive, parser_.http_1_0(), wall_now());
  auto& buffers = stream_->out;
  buffers.assign(1, asio::buffer(out_));
  stream_->next = 0;
  if (parser_.method() != "HEAD") {
    if (!response_.head.empty()) buffers.push_back(asio::buffer(response_.head));
    for (const Segment& segment : response_.segments) {
      if (!segment.bytes.empty()) {
        buffers.emplace_back(segment.bytes.data(), segment.bytes.size());
      }
    }
  }
  write_some();
}

void Connection::write_some() {
  set_deadline(core_->config.body_timeout);  // anew after each progress
  const auto& out = stream_->out;
  stream_->socket.async_write_some(WriteView{out.data() + stream_->next, out.data() + out.size()},
                                   [self = shared_from_this()](const ErrorCode& ec, std::size_t n) {
                                     self->on_written(Stream::outcome(ec), n);
                                   });
}

void Connection::on_written(Io io, std::size_t n) {
  if (state_ == State::kClosed) return;
  if (io != Io::kDone) return close();
  auto& [socket, out, next] = *stream_;
  while (next < out.size() && n >= out[next].size()) n -= out[next++].size();
  if (next < out.size()) {
    out[next] += n;
    return write_some();
  }
  response_ = {};
  keep_alive_ ? next_request() : linger();
}

void Connection::next_request() {
  state_ = State::kIdle;
  parser_.reset();
  if (!pending().empty()) return parse_header();
  set_deadline(core_->draining ? std::min<Duration>(kDrainIdle, core_->config.idle_timeout)
                               : core_->config.idle_timeout);
  read();
}

void Connection::linger() {
  state_ = State::kLingering;
  linger_until_ = core_->clock.now() + kLingerTotal;
  ErrorCode ec;
  stream_->socket.shutdown(asio::socket_base::shutdown_send, ec);
  ec ? close() : discard();
}

void Connection::discard() {
  set_deadline(std::min(kLingerSilence, linger_until_ - core_->clock.now()));
  stream_->socket.async_read_some(asio::buffer(in_.get(), in_capacity_),
                                  [self = shared_from_this()](const ErrorCode& ec, std::size_t) {
                                    if (self->state_ == State::kClosed) return;
                                    ec ? self->close() : self->discard();
                                  });
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  const auto unanswered = state_ == State::kHandling ? exchange_.lock() : nullptr;
  state_ = State::kClosed;
  clear_deadline();
  ErrorCode ignored;
  stream_->socket.close(ignored);
  response_ = {};
  core_->remove(shared_from_this());
  if (unanswered) unanswered->abandon();
}

}  // namespace gradus::api
