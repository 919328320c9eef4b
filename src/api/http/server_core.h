// What a server's connections share. Held by each of them and by each unanswered request, because
// an answer may come after the server has gone. Asio's types stay in the .cc files.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

#include "api/http/http_message.h"
#include "api/http/request_parser.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "config/server_config.h"
#include "worker/shared_pool.h"

namespace boost::asio {
class io_context;
}

namespace gradus::api {

class Connection;

class ServerCore : public std::enable_shared_from_this<ServerCore> {
 public:
  ServerCore(const config::HttpConfig& http_config, Handler& request_handler, int thread_count,
             const Clock& server_clock, worker::SharedPool& body_pool, std::size_t connection_cap);
  ~ServerCore();
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;

  // Called by HttpServer, as it says.
  Result<std::uint16_t> start();
  void drain();
  void stop(TimePoint deadline);
  std::size_t connection_count() const;

  // Called by connections, on any thread.
  void remove(const std::shared_ptr<Connection>& connection);

  const config::HttpConfig config;
  const ParserLimits limits;
  Handler& handler;
  const Clock& clock;
  worker::SharedPool& pool;  // until stop()
  std::atomic<bool> draining{false};

 private:
  struct Listener;

  void wait_for_clients();
  bool accept_waiting();
  void admit(int descriptor);
  void close_listener();
  void sweep();
  std::vector<std::shared_ptr<Connection>> snapshot() const;

  const std::size_t cap_;
  // One for each thread: of threads that share one, each that has an event wakes another first.
  std::vector<std::unique_ptr<boost::asio::io_context>> loops_;
  const std::unique_ptr<Listener> listener_;  // its fields belong to the first loop's thread
  mutable Mutex mutex_;
  std::unordered_set<std::shared_ptr<Connection>> connections_ GUARDED_BY(mutex_);
  std::vector<std::jthread> pool_threads_;
};

}  // namespace gradus::api
