// One client's connection: reads a request, has it handled, writes the answer, and again.
//
//   idle -> header -> body -> handling -> writing -> idle, or -> lingering -> closed
//
// Nothing is read while a request is handled, so a client that sends faster than it is answered is
// slowed down by TCP; once that takes long it is watched for the client's closing its
// side, which abandons the request. Lingering: our side is shut down and what still comes is thrown
// away for a while; a close with unread bytes would make the client's kernel drop our answer.
//
// Threads: one mutex guards all of it, the socket too. Whoever has something for a connection, the
// server's threads or the one that has the answer, takes the mutex and takes the step itself, so
// that an answer is written without waking anybody. Steps do not block, and what a step leaves to
// do that calls others (the handler, whoever waits for a request to be abandoned) is done after the
// mutex is let go.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/http/exchange.h"
#include "api/http/outgoing.h"
#include "api/http/request_parser.h"
#include "api/http/server_core.h"
#include "base/mutex.h"

namespace gradus::api {

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// @param loop the core's: what the connection waits for
  /// @param descriptor a connected, non-blocking TCP socket; owned from now on
  Connection(std::shared_ptr<ServerCore> core, boost::asio::io_context& loop, int descriptor);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Any thread. None of these blocks, and none calls the handler; the ones that may close the
  // connection may call what was given to Reply::when_abandoned.
  void start();
  void start_refusing();  // answers 503 whatever comes
  TimePoint deadline() const { return TimePoint(Duration(deadline_.load())); }
  bool idle() const { return state_ == State::kIdle; }
  bool busy() const;  // a request has begun and its answer is not written
  bool handling() const { return state_ == State::kHandling; }
  void overdue();     // the deadline has passed: what is late ends
  void watch();       // what is handled takes long: is the client still there?
  void drain();       // idle: closes soon
  void close_idle();  // idle: closes, unless a request has just arrived
  void abort();       // closes whatever is under way

  /// Writes the answer to the request that is handled: here and now, but for what the client does
  /// not take at once, what is large, and what comes before the handler has returned.
  void reply(HttpResponse response);

 private:
  enum class State {
    kIdle,
    kAhead,  // the next request, or some of it, has come: a thread of the server's will take it up
    kHeader,
    kBody,
    kChunkedBody,
    kHandling,
    kWriting,
    kLingering,
    kClosed
  };
  enum class Io { kDone, kLater, kEnd, kFailed };  // kEnd: the client sends no more
  struct Socket;
  struct After {  // what a step leaves to do without the mutex
    std::shared_ptr<Exchange> handle;
    std::shared_ptr<Exchange> abandon;
    HttpResponse let_go;  // frees what others own
  };

  template <class... Args>
  void enter(void (Connection::*step)(Args...), std::type_identity_t<Args>... args);
  void run_handler(const std::shared_ptr<Exchange>& exchange);

  // Steps, and what they are made of.
  void begin() REQUIRES(mutex_);
  void refuse_to_serve() REQUIRES(mutex_);
  void await_readable() REQUIRES(mutex_);
  void await_writable() REQUIRES(mutex_);
  void on_readable(bool failed) REQUIRES(mutex_);
  void on_writable(bool failed) REQUIRES(mutex_);
  Io receive(void* to, std::size_t size, std::size_t& received) REQUIRES(mutex_);
  void read() REQUIRES(mutex_);
  void begin_request() REQUIRES(mutex_);
  void parse_header() REQUIRES(mutex_);
  void begin_body() REQUIRES(mutex_);
  void read_body() REQUIRES(mutex_);
  void take_chunks() REQUIRES(mutex_);
  void begin_handling() REQUIRES(mutex_);
  void on_handled() REQUIRES(mutex_);
  void on_reply(HttpResponse& response) REQUIRES(mutex_);
  void begin_watching() REQUIRES(mutex_);
  void look_for_client() REQUIRES(mutex_);
  void answer() REQUIRES(mutex_);
  void write(bool keep_alive) REQUIRES(mutex_);
  void flush() REQUIRES(mutex_);
  void next_request() REQUIRES(mutex_);
  void take_ahead() REQUIRES(mutex_);
  void refuse(int status, std::string_view text) REQUIRES(mutex_);
  void linger() REQUIRES(mutex_);
  void discard() REQUIRES(mutex_);
  void close() REQUIRES(mutex_);
  void end_overdue() REQUIRES(mutex_);
  void end_idle() REQUIRES(mutex_);
  void hurry_idle() REQUIRES(mutex_);
  void end_wait() REQUIRES(mutex_);
  void time_out() REQUIRES(mutex_);
  void set_deadline(Duration from_now);
  void clear_deadline() { deadline_ = TimePoint::max().time_since_epoch().count(); }
  bool reserve_body(std::size_t size) REQUIRES(mutex_);
  std::span<const char> pending() const REQUIRES(mutex_) {
    return {in_.get() + begin_, end_ - begin_};
  }

  const std::shared_ptr<ServerCore> core_;
  boost::asio::io_context& loop_;
  Mutex mutex_;
  const std::unique_ptr<Socket> socket_;         // what it points to, too, is guarded
  int descriptor_ GUARDED_BY(mutex_);            // the socket's; -1: closed
  std::atomic<State> state_{State::kIdle};       // written under the mutex
  std::atomic<Duration::rep> deadline_;          // as well
  bool await_read_ GUARDED_BY(mutex_) = false;   // a wait for readability is pending
  bool await_write_ GUARDED_BY(mutex_) = false;  // and for room to write
  bool wait_ended_ GUARDED_BY(mutex_) = false;   // the pending wait was cancelled: it took too long
  After after_ GUARDED_BY(mutex_);

  // Received and not yet parsed: [begin_, end_) of in_.
  RequestParser parser_ GUARDED_BY(mutex_);
  const std::size_t in_capacity_;
  const std::unique_ptr<char[]> in_;
  std::size_t begin_ GUARDED_BY(mutex_) = 0;
  std::size_t end_ GUARDED_BY(mutex_) = 0;

  const std::string peer_;  // HttpRequest::peer
  HttpRequest request_;  // views into parser_ and body; while the handler runs nobody changes them
  worker::PoolBuffer body_ GUARDED_BY(mutex_);
  std::size_t body_start_ GUARDED_BY(mutex_) = 0;  // offset of the body in its buffer
  std::size_t body_have_ GUARDED_BY(mutex_) = 0;
  std::size_t body_size_ GUARDED_BY(mutex_) = 0;  // announced

  std::weak_ptr<Exchange> exchange_ GUARDED_BY(mutex_);  // of the request that is handled
  bool handler_runs_ GUARDED_BY(mutex_) = false;
  bool replied_ GUARDED_BY(mutex_) = false;  // while it ran: response_ waits for its return

  HttpResponse response_ GUARDED_BY(mutex_);
  bool keep_alive_ GUARDED_BY(mutex_) = false;
  std::string head_ GUARDED_BY(mutex_);  // status line and headers of the answer
  Outgoing out_ GUARDED_BY(mutex_);      // of head_ and response_
  TimePoint linger_until_ GUARDED_BY(mutex_){};
};

}  // namespace gradus::api
