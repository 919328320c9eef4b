#include "tools/drill_load.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 60s;  // for one answer
constexpr std::size_t kMostOfRefusal = 300;
constexpr std::size_t kMostConnections = 900;  // a process may have 1024 descriptors

// The requests under way and the connections that wait for the next, in one thread.
class Connections {
 public:
  explicit Connections(const LoadPlan& plan) : plan_(plan) {}

  std::size_t under_way() const { return busy_.size(); }
  bool full() const { return busy_.size() >= kMostConnections; }

  // Sends a request that was due then. Its fate goes into sent[index].
  void send(std::vector<SentRequest>& sent, TimePoint due) {
    sent.push_back({.due = due});
    std::optional<HttpConnection> connection = idle_connection();
    if (!connection || !connection->send(plan_.request)) return;  // status 0: it failed
    busy_.push_back({std::move(*connection), sent.size() - 1});
  }

  // Waits for the sockets, at most until `until`, and takes what has come.
  void wait(std::vector<SentRequest>& sent, TimePoint until) {
    sockets_.clear();
    for (const Busy& busy : busy_) {
      const int events = POLLIN | (busy.connection.wants_to_write() ? POLLOUT : 0);
      sockets_.push_back({busy.connection.fd(), static_cast<short>(events), 0});
    }
    const auto left = std::max<Duration>(until - steady_clock().now(), 0ns);
    const timespec limit{static_cast<time_t>(left / 1s), static_cast<long>((left % 1s).count())};
    ::ppoll(sockets_.data(), sockets_.size(), &limit, nullptr);
    const TimePoint now = steady_clock().now();
    for (std::size_t i = busy_.size(); i-- > 0;) {
      if (is_over(busy_[i], sockets_[i].revents != 0, sent, now)) {
        std::swap(busy_[i], busy_.back());
        busy_.pop_back();
      }
    }
  }

 private:
  struct Busy {
    HttpConnection connection;
    std::size_t index;
  };

  std::optional<HttpConnection> idle_connection() {
    while (!idle_.empty()) {
      HttpConnection connection = std::move(idle_.back());
      idle_.pop_back();
      if (connection.still_open()) return connection;  // else the server tired of it
    }
    auto opened = HttpConnection::open(plan_.port);
    return opened ? std::optional(std::move(*opened)) : std::nullopt;
  }

  bool is_over(Busy& busy, bool ready, std::vector<SentRequest>& sent, TimePoint now) {
    SentRequest& request = sent[busy.index];
    if (!ready) return now - request.due > kPatience;
    const auto whole = busy.connection.go_on();
    if (!whole) return true;
    if (!*whole) return false;
    const HttpAnswer& answer = busy.connection.answer();
    request.answered = now;
    request.status = answer.status;
    if (answer.status != 200) request.refusal = answer.body.substr(0, kMostOfRefusal);
    request.level = answer.level().value_or(-1);
    const auto right = plan_.right.find(request.level);
    request.right = answer.status == 200 && right != plan_.right.end() &&
                    agrees(right->second, answer.tensors());
    idle_.push_back(std::move(busy.connection));
    return true;
  }

  const LoadPlan& plan_;
  std::vector<HttpConnection> idle_;
  std::vector<Busy> busy_;
  std::vector<pollfd> sockets_;
};

void send_on_schedule(const LoadPlan& plan, double rate, const std::stop_token& stop,
                      std::vector<SentRequest>& sent) {
  constexpr Duration kLook = 20ms;  // for the wish to stop
  const Duration every = std::chrono::nanoseconds(std::llround(1e9 / rate));
  const Clock& clock = steady_clock();
  Connections connections(plan);
  TimePoint due = clock.now();
  while (!stop.stop_requested()) {
    for (; due <= clock.now() && !connections.full(); due += every) connections.send(sent, due);
    connections.wait(sent, std::min(due, clock.now() + kLook));
  }
  while (connections.under_way() > 0) connections.wait(sent, clock.now() + kLook);
}

}  // namespace

std::string failure_text(const SentRequest& request) {
  if (request.status == 0) return "no answer, or a broken connection";
  return std::to_string(request.status) + " " + request.refusal;
}

OpenLoad::OpenLoad(const LoadPlan& plan, double rate)
    : thread_([this, &plan, rate](const std::stop_token& stop) {
        send_on_schedule(plan, rate, stop, sent_);
      }) {}

std::vector<SentRequest> OpenLoad::stop() {
  thread_.request_stop();
  thread_.join();
  return std::move(sent_);
}

Result<double> closed_loop_rate(const LoadPlan& plan, int connections, Duration time) {
  const Clock& clock = steady_clock();
  const auto wanted = static_cast<std::size_t>(connections);
  Connections open(plan);
  std::vector<SentRequest> sent;
  const TimePoint begun = clock.now();
  while (clock.now() < begun + time) {
    while (open.under_way() < wanted && clock.now() < begun + time) open.send(sent, clock.now());
    open.wait(sent, begun + time);
  }
  while (open.under_way() > 0) open.wait(sent, clock.now() + time);
  TimePoint last = begun;
  for (const SentRequest& request : sent) {
    if (request.status != 200) return fail(Code::kUnavailable, failure_text(request));
    if (!request.right) return fail(Code::kInternal, "an answer is not the level's own one");
    last = std::max(last, *request.answered);
  }
  return static_cast<double>(sent.size()) / std::chrono::duration<double>(last - begun).count();
}

}  // namespace gradus::tools
