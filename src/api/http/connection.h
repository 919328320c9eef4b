// One client's connection: reads a request, has it handled, writes the answer, and again. All
// state belongs to the connection's strand; what other threads may call posts to it.
//
//   idle -> header -> body -> handling -> writing -> idle, or -> lingering -> closed
//
// Nothing is read while a request is handled, so a client that sends faster than it is answered is
// slowed down by TCP; once that takes long it is watched for the client's closing its
// side, which abandons the request. Lingering: our side is shut down and what still comes is thrown
// away for a while; a close with unread bytes would make the client's kernel drop our answer.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/http/exchange.h"
#include "api/http/request_parser.h"
#include "api/http/server_core.h"

namespace gradus::api {

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// @param descriptor a connected, non-blocking TCP socket; owned from now on
  Connection(std::shared_ptr<ServerCore> core, int descriptor);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Any thread.
  void start();
  void start_refusing();  // answers 503 whatever comes
  TimePoint deadline() const { return TimePoint(Duration(deadline_.load())); }
  bool idle() const { return state_ == State::kIdle; }
  bool busy() const;  // a request has begun and its answer is not written
  bool handling() const { return state_ == State::kHandling; }
  void post_overdue();     // the deadline has passed
  void post_watch();       // what is handled takes long: is the client still there?
  void post_drain();       // idle: close soon
  void post_close_idle();  // idle: close, unless a request has just arrived
  void post_abort();       // close whatever is under way
  void post_reply(HttpResponse response);

 private:
  enum class State {
    kIdle,
    kHeader,
    kBody,
    kChunkedBody,
    kHandling,
    kWriting,
    kLingering,
    kClosed
  };
  enum class Io { kDone, kEnd, kFailed };  // how reading or writing went; kEnd: the client's end
  struct Stream;

  void read();
  void on_read(Io io, std::size_t n);
  void parse_header();
  void begin_body();
  void send_continue();
  void read_body();
  void on_body_read(Io io, std::size_t n);
  void take_chunks();
  void dispatch();
  void watch();
  void on_watched();
  void on_reply(HttpResponse response);
  void write(HttpResponse response, bool keep_alive);
  void write_some();
  void on_written(Io io, std::size_t n);
  void next_request();
  void refuse(int status, std::string_view text);
  void linger();
  void discard();
  void close();
  void overdue();
  void end_wait();
  void time_out();
  void set_deadline(Duration from_now);
  void clear_deadline() { deadline_ = TimePoint::max().time_since_epoch().count(); }
  bool reserve_body(std::size_t size);
  std::span<const char> pending() const { return {in_.get() + begin_, end_ - begin_}; }

  const std::shared_ptr<ServerCore> core_;
  const std::unique_ptr<Stream> stream_;  // the socket and its strand
  RequestParser parser_;
  std::atomic<State> state_{State::kIdle};  // written on the strand
  bool wait_ended_ = false;                 // the pending read was cancelled: it took too long
  std::atomic<Duration::rep> deadline_;

  // Received and not yet parsed: [begin_, end_) of in_.
  const std::size_t in_capacity_;
  const std::unique_ptr<char[]> in_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  const std::string peer_;  // HttpRequest::peer
  HttpRequest request_;
  worker::PoolBuffer body_;
  std::size_t body_start_ = 0;  // offset of the body in its buffer
  std::size_t body_have_ = 0;
  std::size_t body_size_ = 0;  // announced

  std::weak_ptr<Exchange> exchange_;  // of the request that is handled
  bool watching_ = false;             // a wait for readability is pending

  HttpResponse response_;
  bool keep_alive_ = false;
  std::string out_;  // status line and headers of the answer
  TimePoint linger_until_{};
};

}  // namespace gradus::api
