// A server on a free port of the loopback interface, and handlers that tests steer.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/http/http_server.h"
#include "raw_client.h"

namespace gradus::api {

using namespace std::chrono_literals;

/// Answers with the body it got, from where that lies; `method target` when there is none.
class EchoHandler final : public Handler {
 public:
  std::size_t body_offset(const HttpRequest&) const override { return offset; }
  void handle(const HttpRequest& request, Reply reply) override {
    ++requests;
    HttpResponse response;
    if (request.body.empty()) {
      response.head = std::string(request.method) + " " + std::string(request.target);
    } else {
      last_body = request.body.data();
      response.segments.push_back({request.body, request.body_owner});
    }
    reply(std::move(response));
  }

  std::size_t offset = 0;
  std::atomic<int> requests{0};
  std::atomic<const std::byte*> last_body{nullptr};
};

/// Keeps each reply until the test takes it.
class HoldingHandler final : public Handler {
 public:
  void handle(const HttpRequest& request, Reply reply) override {
    const std::lock_guard lock(mutex_);
    body_ = request.body;
    body_owner_ = request.body_owner;
    held_.push_back(std::move(reply));
    changed_.notify_all();
  }
  /// Of the last request; stays readable.
  std::span<const std::byte> body() {
    const std::lock_guard lock(mutex_);
    return body_;
  }
  /// Waits for a request; the test's thread answers it.
  Reply take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_.empty(); });
    Reply reply = std::move(held_.front());
    held_.erase(held_.begin());
    return reply;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Reply> held_;
  std::span<const std::byte> body_;
  std::shared_ptr<const void> body_owner_;
};

inline config::HttpConfig on_free_port() {
  config::HttpConfig config;
  config.port = 0;
  return config;
}

/// A running server; `port` is the real one.
struct TestServer {
  explicit TestServer(Handler& handler, const config::HttpConfig& config = on_free_port(),
                      std::size_t most_connections = 0, int threads = 2)
      : server(config, handler, threads, steady_clock(), pool, most_connections) {
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().message;
    port = started.value_or(0);
  }
  RawClient client() const { return RawClient(port); }

  worker::SharedPool pool{worker::SharedPool::Options{}};
  HttpServer server;
  std::uint16_t port = 0;
};

/// Polls until `condition` holds, for a long time at most.
template <class Condition>
bool eventually(Condition condition) {
  const TimePoint until = steady_clock().now() + 20s;
  while (!condition()) {
    if (steady_clock().now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

inline HttpResponse text_response(std::string text) {
  HttpResponse response;
  response.head = std::move(text);
  return response;
}

inline void expect_json_error(const std::optional<Answer>& answer, int status) {
  ASSERT_TRUE(answer) << "no answer";
  EXPECT_EQ(answer->status, status) << answer->body;
  EXPECT_EQ(answer->header("content-type"), "application/json");
  EXPECT_TRUE(answer->body.starts_with("{\"error\":\"")) << answer->body;
}

}  // namespace gradus::api
