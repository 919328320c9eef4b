// A load client in one thread: a closed loop over `connections` keep-alive connections, each of
// which sends the next prepared request as soon as its answer is whole.
//
//   load_client PORT SERVER_PID CONNECTIONS SECONDS REQUEST_FILE[,…] [OUTPUT_FILE[,…]]
//
// A REQUEST_FILE holds a request as it goes over the wire; several are sent in turn. Every answer
// must have status 200; each connection's and each request's first answer must end in the FP32
// values of the request's OUTPUT_FILE. Prints one line of JSON, or what was wrong on standard error
// and exits with 1.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "closed_loop.h"
#include "tools/http_client.h"

namespace gradus::bench {
namespace {

struct Connection {
  tools::HttpConnection http;
  TimePoint sent_at{};
  std::size_t request = 0;  // the one under way
};

class Load {
 public:
  explicit Load(const Plan& plan) : plan_(plan), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Result<void> run();

 private:
  Result<void> connect();
  Result<void> send(Connection& connection);
  Result<void> on_answer(Connection& connection);
  void watch(int operation, Connection& connection);

  const Plan& plan_;
  const Clock& clock_ = steady_clock();
  int epoll_;
  std::vector<Connection> connections_;
  std::size_t under_way_ = 0;
  std::size_t sent_ = 0;
  std::size_t body_bytes_ = 0;  // of the last answer
  std::optional<Measurement> measured_;
};

void Load::watch(int operation, Connection& connection) {
  epoll_event event{};
  event.events = EPOLLIN | (connection.http.wants_to_write() ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<std::uint64_t>(&connection - connections_.data());
  ::epoll_ctl(epoll_, operation, connection.http.fd(), &event);
}

Result<void> Load::connect() {
  if (auto there = check_server(plan_); !there) return there;
  connections_.reserve(plan_.connections);
  for (std::size_t i = 0; i < plan_.connections; ++i) {
    auto opened = tools::HttpConnection::open(plan_.port);
    if (!opened) return tl::unexpected(opened.error());
    connections_.push_back({std::move(*opened), {}, 0});
    watch(EPOLL_CTL_ADD, connections_.back());
  }
  return {};
}

Result<void> Load::send(Connection& connection) {
  const bool first = sent_ < std::max(plan_.connections, plan_.requests.size());
  const bool compare_it = first && !plan_.outputs.empty();
  connection.sent_at = clock_.now();
  connection.request = sent_++ % plan_.requests.size();
  const auto keep = compare_it ? tools::Body::kKeep : tools::Body::kDrop;
  const std::string& request = plan_.requests[connection.request];
  if (const auto sent = connection.http.send(request, keep); !sent) return sent;
  if (connection.http.wants_to_write()) watch(EPOLL_CTL_MOD, connection);
  ++under_way_;
  return {};
}

Result<void> Load::on_answer(Connection& connection) {
  const TimePoint now = clock_.now();
  const tools::HttpAnswer& answer = connection.http.answer();
  --under_way_;
  if (answer.status != 200) {
    return fail(Code::kInternal,
                answer.head.substr(0, answer.head.find('\r')) + ": " + answer.body);
  }
  body_bytes_ = answer.body_bytes;
  if (!answer.body.empty()) {
    const auto right = compare(answer.body, plan_.outputs[connection.request]);
    if (!right) return right;
  }
  const bool go_on = measured_->count(now, connection.sent_at, answer.level());
  return go_on ? send(connection) : Result<void>{};
}

Result<void> Load::run() {
  if (const auto connected = connect(); !connected) return connected;
  measured_.emplace(plan_, clock_.now());
  for (Connection& connection : connections_) {
    if (const auto sent = send(connection); !sent) return sent;
  }
  std::array<epoll_event, 64> events{};
  while (under_way_ > 0) {
    const int ready =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (ready == 0) return fail(Code::kDeadline, "no answer for 30 s");
    for (int i = 0; i < ready; ++i) {
      Connection& connection = connections_[events[static_cast<std::size_t>(i)].data.u64];
      const bool wrote = connection.http.wants_to_write();
      const auto answered = connection.http.go_on();
      if (!answered) return tl::unexpected(answered.error());
      if (wrote && !connection.http.wants_to_write()) watch(EPOLL_CTL_MOD, connection);
      if (!*answered) continue;
      if (const auto handled = on_answer(connection); !handled) return handled;
    }
  }
  measured_->print(body_bytes_, sent_);
  return {};
}

Result<void> load(const Plan& plan) { return Load(plan).run(); }

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  return gradus::bench::run_plan("load_client", {argv + 1, argv + argc}, gradus::bench::load);
}
