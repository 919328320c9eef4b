// The load client over gRPC: a closed loop of unary calls in one thread.
//
//   grpc_client PORT SERVER_PID CALLS SECONDS REQUEST_FILE[,…] [OUTPUT_FILE[,…]]
//
// CALLS run at once; at most kCallsOfConnection of them share a connection. A REQUEST_FILE holds a
// ModelInferRequest as bytes; the rest is as in load_client.cc: every call must end with status OK,
// and the first ones' messages in the FP32 values of their OUTPUT_FILE.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "closed_loop.h"
#include "grpc_connection.h"

namespace gradus::bench {
namespace {

// As many as Triton's client libraries let share one (TRITON_CLIENT_GRPC_CHANNEL_MAX_SHARE_COUNT).
constexpr std::size_t kCallsOfConnection = 6;

struct Call : GrpcCall {
  std::size_t connection = 0;
  TimePoint sent_at{};
  std::size_t request = 0;  // the one under way
};

class Load {
 public:
  explicit Load(const Plan& plan) : plan_(plan), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (const std::string& request : plan.requests) requests_.push_back(framed(request));
  }

  Result<void> run();

 private:
  Result<void> connect();
  Result<void> begin(Call& call);
  Result<void> go_on(std::size_t connection);
  Result<void> on_answer(Call& call);
  void watch(int operation, std::size_t connection);

  const Plan& plan_;
  const Clock& clock_ = steady_clock();
  int epoll_;
  std::vector<std::string> requests_;  // framed
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<GrpcConnection>> connections_;
  std::size_t under_way_ = 0;
  std::size_t sent_ = 0;
  std::size_t body_bytes_ = 0;  // of the last answer
  std::optional<Measurement> measured_;
};

void Load::watch(int operation, std::size_t connection) {
  const GrpcConnection& watched = *connections_[connection];
  epoll_event event{};
  event.events = EPOLLIN | (watched.wants_to_write() ? EPOLLOUT : 0u);
  event.data.u64 = connection;
  ::epoll_ctl(epoll_, operation, watched.fd(), &event);
}

Result<void> Load::connect() {
  if (auto there = check_server(plan_); !there) return there;
  calls_.resize(plan_.connections);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    calls_[i].connection = i / kCallsOfConnection;
    if (i % kCallsOfConnection != 0) continue;
    auto opened = GrpcConnection::open(plan_.port);
    if (!opened) return tl::unexpected(opened.error());
    connections_.push_back(std::move(*opened));
    watch(EPOLL_CTL_ADD, calls_[i].connection);
  }
  return {};
}

Result<void> Load::begin(Call& call) {
  const bool first = sent_ < std::max(plan_.connections, plan_.requests.size());
  call.keep = first && !plan_.outputs.empty();
  call.request = sent_++ % plan_.requests.size();
  call.sent_at = clock_.now();
  ++under_way_;
  return connections_[call.connection]->begin(call, requests_[call.request]);
}

Result<void> Load::on_answer(Call& call) {
  const TimePoint now = clock_.now();
  const GrpcAnswer& answer = call.answer;
  --under_way_;
  if (auto right = answer.check(); !right) return right;
  body_bytes_ = answer.message_bytes;
  if (call.keep) {
    if (auto right = compare(answer.message, plan_.outputs[call.request]); !right) return right;
  }
  return measured_->count(now, call.sent_at, answer.level) ? begin(call) : Result<void>{};
}

Result<void> Load::go_on(std::size_t connection) {
  GrpcConnection& ready = *connections_[connection];
  const bool waited = ready.wants_to_write();
  if (auto read = ready.read(); !read) return read;
  for (GrpcCall* const call : ready.done()) {
    if (auto right = on_answer(static_cast<Call&>(*call)); !right) return right;
  }
  if (auto written = ready.write(); !written) return written;
  if (waited != ready.wants_to_write()) watch(EPOLL_CTL_MOD, connection);
  return {};
}

Result<void> Load::run() {
  if (auto connected = connect(); !connected) return connected;
  measured_.emplace(plan_, clock_.now());
  for (Call& call : calls_) {
    if (auto begun = begin(call); !begun) return begun;
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (auto sent = go_on(i); !sent) return sent;
  }
  std::array<epoll_event, 64> events{};
  while (under_way_ > 0) {
    const int ready =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (ready == 0) return fail(Code::kDeadline, "no answer for 30 s");
    for (int i = 0; i < ready; ++i) {
      const auto handled = go_on(events[static_cast<std::size_t>(i)].data.u64);
      if (!handled) return handled;
    }
  }
  measured_->print(body_bytes_, sent_);
  return {};
}

Result<void> load(const Plan& plan) { return Load(plan).run(); }

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  return gradus::bench::run_plan("grpc_client", {argv + 1, argv + argc}, gradus::bench::load);
}
