// A load client in one thread: a closed loop over `connections` keep-alive connections, each of
// which sends the next prepared request as soon as its answer is whole.
//
//   load_client PORT SERVER_PID CONNECTIONS SECONDS REQUEST_FILE[,…] [OUTPUT_FILE[,…]]
//
// A REQUEST_FILE holds a request as it goes over the wire; several are sent in turn. Every answer
// must have status 200; each connection's and each request's first answer must end in the FP32
// values of the request's OUTPUT_FILE, within kTolerance. Prints one line of JSON, or what was
// wrong on standard error and exits with 1.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "files.h"
#include "latencies.h"
#include "tools/http_client.h"

namespace gradus::bench {
namespace {

using namespace std::chrono_literals;

constexpr double kWarmUpShare = 0.25;  // of the measured time, before it
constexpr int kPatienceMs = 30'000;    // without any answer
constexpr float kTolerance = 1e-4f;    // batching may change the order of sums

struct Plan {
  std::uint16_t port = 0;
  pid_t server = 0;
  std::size_t connections = 1;
  Duration time{};
  std::vector<std::string> requests;
  std::vector<std::string> outputs;  // the requests'; empty: answers are not compared
};

// CPU time of all threads that the process had; of another process: clock_getcpuclockid(3).
Duration cpu_time(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

Result<void> compare(std::string_view body, std::string_view expected) {
  if (body.size() < expected.size()) {
    return fail(Code::kInternal, "wrong answer: its body has " + std::to_string(body.size()) +
                                     " bytes, the output alone has " +
                                     std::to_string(expected.size()));
  }
  body.remove_prefix(body.size() - expected.size());
  for (std::size_t at = 0; at + sizeof(float) <= expected.size(); at += sizeof(float)) {
    float got = 0;
    float want = 0;
    std::memcpy(&got, body.data() + at, sizeof got);
    std::memcpy(&want, expected.data() + at, sizeof want);
    if (!(std::fabs(got - want) <= kTolerance * std::max(1.0f, std::fabs(want)))) {
      return fail(Code::kInternal, "wrong answer: element " + std::to_string(at / sizeof(float)) +
                                       " is " + std::to_string(got) +
                                       ", ONNX Runtime alone gives " + std::to_string(want));
    }
  }
  return {};
}

struct Connection {
  tools::HttpConnection http;
  TimePoint sent_at{};
  std::size_t request = 0;  // the one under way
};

class Load {
 public:
  explicit Load(const Plan& plan) : plan_(plan), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Result<void> run();
  void print();

 private:
  // What had been used when the measured time began, or ended.
  struct Mark {
    TimePoint at;
    Duration server_cpu;
    Duration client_cpu;
  };

  Mark mark(TimePoint now) const { return {now, cpu_time(plan_.server), cpu_time(0)}; }
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
  std::size_t body_bytes_ = 0;         // of the last answer
  std::map<int, std::size_t> levels_;  // of the measured answers; -1: not said
  TimePoint measure_from_{};
  std::optional<Mark> first_;  // the first answer after the warm-up
  std::optional<Mark> last_;   // the first answer after the measured time
  std::vector<Duration> latencies_;
};

void Load::watch(int operation, Connection& connection) {
  epoll_event event{};
  event.events = EPOLLIN | (connection.http.wants_to_write() ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<std::uint64_t>(&connection - connections_.data());
  ::epoll_ctl(epoll_, operation, connection.http.fd(), &event);
}

Result<void> Load::connect() {
  if (cpu_time(plan_.server) == Duration{}) {
    return fail(Code::kNotFound, "process " + std::to_string(plan_.server) + ": no such process");
  }
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
  if (!first_) {
    if (now >= measure_from_) first_ = mark(now);
  } else if (!last_) {
    latencies_.push_back(now - connection.sent_at);
    ++levels_[answer.level().value_or(-1)];
    if (now >= first_->at + plan_.time) last_ = mark(now);
  }
  return last_ ? Result<void>{} : send(connection);
}

Result<void> Load::run() {
  if (const auto connected = connect(); !connected) return connected;
  measure_from_ = clock_.now() + std::chrono::duration_cast<Duration>(plan_.time * kWarmUpShare);
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
  return {};
}

void Load::print() {
  const auto each_us = [&](Duration used) {
    return std::chrono::duration<double, std::micro>(used).count() /
           static_cast<double>(latencies_.size());
  };
  const double seconds = std::chrono::duration<double>(last_->at - first_->at).count();
  std::printf(
      "{\"requests\": %zu, \"requests_per_second\": %.3f, \"p50_us\": %.2f, \"p99_us\": %.2f, "
      "\"server_cpu_us\": %.2f, \"client_cpu_us\": %.2f, \"body_bytes\": %zu, \"sent\": %zu, "
      "\"levels\": {",
      latencies_.size(), static_cast<double>(latencies_.size()) / seconds,
      percentile_us(latencies_, 0.5), percentile_us(latencies_, 0.99),
      each_us(last_->server_cpu - first_->server_cpu),
      each_us(last_->client_cpu - first_->client_cpu), body_bytes_, sent_);
  const char* comma = "";
  for (const auto& [level, count] : levels_) {
    std::printf("%s\"%d\": %zu", comma, level, count);
    comma = ", ";
  }
  std::printf("}}\n");
}

Result<std::vector<std::string>> read_files(std::string_view names) {
  std::vector<std::string> files;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    auto read = read_file(std::string(name));
    if (!read) return tl::unexpected(read.error());
    files.push_back(std::move(*read));
  }
  return files;
}

Result<Plan> plan_of(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5 || arguments.size() > 6) {
    return fail(Code::kInvalid,
                "usage: load_client PORT SERVER_PID CONNECTIONS SECONDS REQUEST_FILE[,…] "
                "[OUTPUT_FILE[,…]]");
  }
  const auto port = parse_number<std::uint16_t>(arguments[0]);
  const auto server = parse_number<pid_t>(arguments[1]);
  const auto connections = parse_number<std::uint16_t>(arguments[2]);
  const auto seconds = parse_number<double>(arguments[3]);
  auto requests = read_files(arguments[4]);
  auto outputs = read_files(arguments.size() == 6 ? arguments[5] : "");
  if (!port) return tl::unexpected(port.error());
  if (!server) return tl::unexpected(server.error());
  if (!connections) return tl::unexpected(connections.error());
  if (!seconds) return tl::unexpected(seconds.error());
  if (!requests) return tl::unexpected(requests.error());
  if (!outputs) return tl::unexpected(outputs.error());
  if (requests->empty() || (!outputs->empty() && outputs->size() != requests->size())) {
    return fail(Code::kInvalid, "there must be a request, and an output for each or for none");
  }
  const auto time = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
  return Plan{*port, *server, *connections, time, std::move(*requests), std::move(*outputs)};
}

int run(const std::vector<std::string>& arguments) {
  const auto plan = plan_of(arguments);
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().message.c_str());
    return 2;
  }
  Load load(*plan);
  if (const auto done = load.run(); !done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
  }
  load.print();
  return 0;
}

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) { return gradus::bench::run({argv + 1, argv + argc}); }
