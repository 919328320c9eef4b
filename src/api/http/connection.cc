#include "api/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/log.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadAhead = 4 << 10;    // beyond the largest header
constexpr std::size_t kWriteHere = 256 << 10;  // copying more takes longer than to wake a thread
constexpr Duration kLingerSilence = 2s;        // without a byte from the client
constexpr Duration kLingerTotal = 10s;
constexpr Duration kDrainIdle = 1s;  // an idle connection's time once a drain has begun

std::string ms_text(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

// That a wait was cancelled tells nothing of the socket.
bool is_failure(const ErrorCode& ec) { return ec && ec != asio::error::operation_aborted; }

}  // namespace

// Asio only waits for it: bytes are moved by hand, at once, so that no completion is queued for
// another thread.
struct Connection::Socket
    : asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type> {
  Socket(asio::io_context& io, int descriptor) : basic_stream_socket(io) {
    ErrorCode ec;
    assign(asio::ip::tcp::v4(), descriptor, ec);  // v6 too: only the number counts
    if (ec) ::close(descriptor);                  // then the first read fails
  }
  std::string peer() const {
    ErrorCode ec;
    const auto endpoint = remote_endpoint(ec);
    return ec ? std::string() : endpoint.address().to_string();
  }
};

Connection::Connection(std::shared_ptr<ServerCore> core, asio::io_context& loop, int descriptor)
    : core_(std::move(core)),
      loop_(loop),
      socket_(std::make_unique<Socket>(loop, descriptor)),
      descriptor_(socket_->native_handle()),
      parser_(core_->limits),
      in_capacity_(core_->limits.header_bytes + kReadAhead),
      in_(std::make_unique_for_overwrite<char[]>(in_capacity_)),
      peer_(socket_->peer()) {
  clear_deadline();
}

Connection::~Connection() = default;

// A step that throws, for want of memory, leaves nobody to go on: the connection is closed.
template <class... Args>
void Connection::enter(void (Connection::*step)(Args...), std::type_identity_t<Args>... args) {
  After after;
  std::string failure;
  {
    const MutexLock lock(mutex_);
    try {
      (this->*step)(args...);
    } catch (const std::exception& e) {
      failure = e.what();
      close();
    }
    after = std::exchange(after_, {});
  }
  if (!failure.empty()) log::error("http: a connection was closed", {{"what", failure}});
  if (after.abandon) after.abandon->abandon();
  if (after.handle) run_handler(after.handle);
}

void Connection::start() { enter(&Connection::begin); }
void Connection::start_refusing() { enter(&Connection::refuse_to_serve); }
void Connection::overdue() { enter(&Connection::end_overdue); }
void Connection::watch() { enter(&Connection::begin_watching); }
void Connection::drain() { enter(&Connection::hurry_idle); }
void Connection::close_idle() { enter(&Connection::end_idle); }
void Connection::abort() { enter(&Connection::close); }
void Connection::reply(HttpResponse response) { enter(&Connection::on_reply, response); }

bool Connection::busy() const {
  const State state = state_;
  return state != State::kIdle && state != State::kLingering && state != State::kClosed;
}

void Connection::begin() {
  set_deadline(core_->config.header_timeout);
  await_readable();
}

void Connection::refuse_to_serve() {
  refuse(503, "no connection left: the limit of open connections is reached");
}

void Connection::hurry_idle() {
  if (idle() && deadline() > core_->clock.now() + kDrainIdle) set_deadline(kDrainIdle);
}

void Connection::end_idle() {
  ErrorCode ec;
  if (idle() && socket_->available(ec) == 0) end_wait();
}

void Connection::set_deadline(Duration from_now) {
  deadline_ = (core_->clock.now() + from_now).time_since_epoch().count();
}

void Connection::end_overdue() {
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
    case State::kAhead:
    case State::kHandling:
    case State::kClosed:
      return;
  }
}

// The pending wait is cancelled rather than the socket closed: if a request has just come, it is
// read when the wait ends.
void Connection::end_wait() {
  wait_ended_ = true;
  clear_deadline();
  ErrorCode ignored;
  socket_->cancel(ignored);
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

// One wait serves all states: it may outlive the request that it was begun for.
void Connection::await_readable() {
  if (await_read_) return;
  socket_->async_wait(asio::socket_base::wait_read,
                      [self = shared_from_this()](const ErrorCode& ec) {
                        self->enter(&Connection::on_readable, is_failure(ec));
                      });
  await_read_ = true;
}

void Connection::await_writable() {
  if (await_write_) return;
  socket_->async_wait(asio::socket_base::wait_write,
                      [self = shared_from_this()](const ErrorCode& ec) {
                        self->enter(&Connection::on_writable, is_failure(ec));
                      });
  await_write_ = true;
}

void Connection::on_readable(bool failed) {
  await_read_ = false;
  const State state = state_;
  if (state == State::kClosed) return;
  if (failed) return close();
  if (wait_ended_ && state != State::kIdle) return time_out();
  if (!out_.empty()) return;  // what is written comes first
  switch (state) {
    case State::kIdle:
    case State::kHeader:
    case State::kChunkedBody:
      return read();
    case State::kBody:
      return read_body();
    case State::kHandling:
      return look_for_client();
    case State::kLingering:
      return discard();
    case State::kAhead:
    case State::kWriting:
    case State::kClosed:
      return;
  }
}

void Connection::on_writable(bool failed) {
  await_write_ = false;
  if (state_ == State::kClosed) return;
  if (failed) return close();
  if (wait_ended_) return time_out();
  if (!out_.empty()) flush();
}

void Connection::begin_handling() {
  state_ = State::kHandling;
  clear_deadline();
  if (body_have_ > 0) {
    request_.body = {body_.data + body_start_, body_have_};
    request_.readable_after = kBodyBufferAlignment;
    request_.body_owner = std::move(body_.owner);
  }
  body_ = {};
  replied_ = false;
  after_.handle = std::make_shared<Exchange>(core_, weak_from_this());
  exchange_ = after_.handle;
  handler_runs_ = true;
}

// Without the mutex: meanwhile the request may be answered and the connection closed, but nothing
// that the handler sees changes.
void Connection::run_handler(const std::shared_ptr<Exchange>& exchange) {
  try {
    core_->handler.handle(request_, Reply(exchange));
  } catch (const std::exception& e) {
    log::error("http: a handler threw", {{"what", e.what()}});
    exchange->send(error_response(500, "internal error"));
  }
  enter(&Connection::on_handled);
}

void Connection::on_handled() {
  handler_runs_ = false;
  request_.body = {};
  request_.body_owner.reset();
  if (state_ == State::kHandling && replied_) answer();
}

void Connection::on_reply(HttpResponse& response) {
  if (state_ != State::kHandling) return;  // closed meanwhile
  response_ = std::move(response);
  replied_ = true;
  if (!handler_runs_) answer();
}

void Connection::begin_watching() {
  if (handling()) await_readable();
}

// What a client sends ahead stays where it is, and hides its end until it is read.
void Connection::look_for_client() {
  char byte = 0;
  const ssize_t got = ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (gone && !replied_) after_.abandon = exchange_.lock();
}

void Connection::answer() { write(parser_.keep_alive() && !core_->draining); }

void Connection::refuse(int status, std::string_view text) {
  body_ = {};
  response_ = error_response(status, text);
  write(false);
}

void Connection::write(bool keep_alive) {
  state_ = State::kWriting;
  keep_alive_ = keep_alive;
  if (response_.send_times) response_.send_times->begun = core_->clock.now();
  head_.clear();
  append_response_head(head_, response_, keep_alive, parser_.http_1_0(), wall_now());
  out_.clear();
  out_.add(head_);
  if (parser_.method() != "HEAD") {
    out_.add(response_.head);
    for (const auto& [bytes, owner] : response_.segments) {
      out_.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  set_deadline(core_->config.body_timeout);
  out_.size() > kWriteHere ? await_writable() : flush();
}

void Connection::flush() {
  const std::size_t before = out_.size();
  switch (out_.send(descriptor_)) {
    case Outgoing::Sent::kAll:
      break;
    case Outgoing::Sent::kSome:
      if (state_ == State::kWriting && out_.size() < before) {
        set_deadline(core_->config.body_timeout);  // anew after each progress
      }
      return await_writable();
    case Outgoing::Sent::kFailed:
      return close();
  }
  if (state_ == State::kBody) return read_body();
  if (state_ == State::kChunkedBody) return take_chunks();
  if (response_.send_times) response_.send_times->ended = core_->clock.now();
  after_.let_go = std::exchange(response_, {});
  keep_alive_ ? next_request() : linger();
}

// What was sent ahead is for the server's threads: the one that has answered may be another's.
void Connection::next_request() {
  parser_.reset();
  if (!pending().empty()) {
    state_ = State::kAhead;
    clear_deadline();
    asio::post(loop_, [self = shared_from_this()] { self->enter(&Connection::take_ahead); });
    return;
  }
  state_ = State::kIdle;
  set_deadline(core_->draining ? std::min<Duration>(kDrainIdle, core_->config.idle_timeout)
                               : core_->config.idle_timeout);
  await_readable();
}

void Connection::take_ahead() {
  if (state_ != State::kAhead) return;
  begin_request();
  parse_header();
}

void Connection::linger() {
  state_ = State::kLingering;
  linger_until_ = core_->clock.now() + kLingerTotal;
  ErrorCode ec;
  socket_->shutdown(asio::socket_base::shutdown_send, ec);
  ec ? close() : discard();
}

void Connection::discard() {
  std::size_t received = 0;
  const Io io = receive(in_.get(), in_capacity_, received);
  if (io == Io::kEnd || io == Io::kFailed) return close();
  set_deadline(std::min(kLingerSilence, linger_until_ - core_->clock.now()));
  await_readable();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  if (state_ == State::kHandling && !replied_) after_.abandon = exchange_.lock();
  if (state_ == State::kHandling || state_ == State::kWriting) {
    after_.let_go = std::exchange(response_, {});
  }
  state_ = State::kClosed;
  clear_deadline();
  ErrorCode ignored;
  socket_->close(ignored);
  descriptor_ = -1;
  out_.clear();
  core_->remove(shared_from_this());
}

}  // namespace gradus::api
