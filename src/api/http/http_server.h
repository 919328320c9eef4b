// An HTTP/1.1 server (RFC 9110, RFC 9112) that knows nothing of models: connections, limits,
// timeouts, keep-alive and a graceful end. One request of a connection is handled at a time; what
// a client pipelines waits its turn.
//
// Every refusal is `{"error":"…"}`: 400 malformed or cut off, 408 too slow, 413 body too large
// (before it is read), 417, 431 header too large, 501 unknown transfer coding, 503 no connection
// or memory left, 505. After a refusal the connection is closed. docs/protocol.md has the table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/http/http_message.h"
#include "base/clock.h"
#include "base/result.h"
#include "config/server_config.h"
#include "worker/shared_pool.h"

namespace gradus::api {

class ServerCore;

class HttpServer {
 public:
  /// @param handler borrowed, called from all of the server's threads
  /// @param threads >= 1; these read, parse and handle; an answer is written by whoever gives it,
  ///   but for what the client does not take at once
  /// @param clock borrowed; judges timeouts
  /// @param pool borrowed until stop() has returned; bodies lie in it. Trimmed every 10 s
  /// @param most_connections one more is answered 503 and closed; 0: as many as the process's limit
  ///   of open files leaves room for
  HttpServer(const config::HttpConfig& config, Handler& handler, int threads, const Clock& clock,
             worker::SharedPool& pool, std::size_t most_connections = 0);
  ~HttpServer();  // stop() with no time left
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Binds, listens and serves. Once.
  /// @return the port, the real one when 0 was asked for; kUnavailable: address or port can't be
  ///   had
  Result<std::uint16_t> start();

  /// Keeps accepting and answering, but each answer closes its connection, and connections that
  /// stay idle are closed. Any thread.
  void drain();

  /// Drains, waits until no request is under way or the deadline passes, then closes everything
  /// and ends the threads. Replies that come later go nowhere. One thread.
  void stop(TimePoint deadline);

  /// Open connections, those included that are about to be closed. Any thread.
  std::size_t connections() const;

 private:
  std::shared_ptr<ServerCore> core_;
};

}  // namespace gradus::api
