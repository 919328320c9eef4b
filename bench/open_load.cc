// An open loop in one thread: requests come when they come (a Poisson process from a fixed seed),
// whether earlier ones are answered or not, each on a free keep-alive connection.
//
//   open_load PORT DEADLINE_MS SEED RATE:SECONDS[,RATE:SECONDS]… REQUEST_FILE
//
// REQUEST_FILE holds the request as it goes over the wire, its own deadline in it. Times count from
// the moment when a request was due, so what this program or the server's backlog delays counts
// too. Prints one line of JSON: a tally of each step, and one of each second.
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "files.h"
#include "latencies.h"
#include "tools/http_client.h"

namespace gradus::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostConnections = 2000;
constexpr Duration kPatience = 5s;  // for the last answers, beyond the deadline

struct Step {
  double rate = 0;  // requests a second
  Duration time{};
};

struct Plan {
  std::uint16_t port = 0;
  Duration deadline{};
  std::uint64_t seed = 0;
  std::vector<Step> steps;
  std::string request;
};

// What became of the requests that were due in some time.
struct Tally {
  std::size_t offered = 0;
  std::size_t in_time = 0;            // 200 by the deadline
  std::size_t late = 0;               // 200 after it
  std::size_t refused = 0;            // 429
  std::size_t expired = 0;            // 504
  std::size_t failed = 0;             // any other status, a broken connection, or no answer
  std::map<int, std::size_t> levels;  // of the answers with 200; -1: not said
  std::vector<Duration> accepted;     // times of these answers

  void print() {
    std::printf(
        "{\"offered\": %zu, \"in_time\": %zu, \"late\": %zu, \"refused\": %zu, \"expired\": %zu, "
        "\"failed\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"levels\": {",
        offered, in_time, late, refused, expired, failed, percentile_us(accepted, 0.5) / 1000,
        percentile_us(accepted, 0.99) / 1000);
    const char* comma = "";
    for (const auto& [level, count] : levels) {
      std::printf("%s\"%d\": %zu", comma, level, count);
      comma = ", ";
    }
    std::printf("}}");
  }
};

// The moments at which requests are due, by step.
class Arrivals {
 public:
  explicit Arrivals(const Plan& plan) : steps_(plan.steps), random_(plan.seed) {}

  struct Due {
    Duration at;  // from the start
    std::size_t step;
  };

  std::optional<Due> next() {
    for (;;) {
      if (step_ == steps_.size()) return std::nullopt;
      const Step& step = steps_[step_];
      std::exponential_distribution<double> gap(step.rate);
      at_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(gap(random_)));
      if (at_ < begun_ + step.time) return Due{at_, step_};
      at_ = begun_ += step.time;
      ++step_;
    }
  }

 private:
  const std::vector<Step>& steps_;
  std::mt19937_64 random_;
  std::size_t step_ = 0;
  Duration begun_{};  // the step's
  Duration at_{};
};

class Load {
 public:
  explicit Load(const Plan& plan)
      : plan_(plan), arrivals_(plan), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    Duration whole{};
    for (const Step& step : plan.steps) whole += step.time;
    steps_.resize(plan.steps.size());
    seconds_.resize(static_cast<std::size_t>((whole + 999ms) / 1s));
  }

  Result<void> run();
  void print();

 private:
  struct Connection {
    std::optional<tools::HttpConnection> http;
    Arrivals::Due due{};
    bool busy = false;
  };

  void start(const Arrivals::Due& due);
  Connection* free_connection();
  void on_ready(Connection& connection);
  void end(Connection& connection, int status, int level);
  void watch(int operation, Connection& connection);
  void wait_until(TimePoint until);

  template <class Count>
  void tally(const Arrivals::Due& due, Count&& count) {
    count(steps_[due.step]);
    count(seconds_[static_cast<std::size_t>(due.at / 1s)]);
  }

  const Plan& plan_;
  const Clock& clock_ = steady_clock();
  Arrivals arrivals_;
  int epoll_;
  TimePoint started_{};
  std::deque<Connection> connections_;
  std::vector<Connection*> free_;
  std::size_t under_way_ = 0;
  std::vector<Tally> steps_;
  std::vector<Tally> seconds_;
};

void Load::watch(int operation, Connection& connection) {
  epoll_event event{};
  event.events = EPOLLIN | (connection.http->wants_to_write() ? EPOLLOUT : 0u);
  event.data.ptr = &connection;
  ::epoll_ctl(epoll_, operation, connection.http->fd(), &event);
}

// Null: none can be had.
Load::Connection* Load::free_connection() {
  if (!free_.empty()) {
    Connection* found = free_.back();
    free_.pop_back();
    if (found->http) return found;
    free_.push_back(found);
  }
  const bool anew = !free_.empty();
  if (!anew && connections_.size() == kMostConnections) return nullptr;
  auto opened = tools::HttpConnection::open(plan_.port);
  if (!opened) return nullptr;
  Connection* made = anew ? free_.back() : &connections_.emplace_back();
  if (anew) free_.pop_back();
  made->http.emplace(std::move(*opened));
  watch(EPOLL_CTL_ADD, *made);
  return made;
}

void Load::start(const Arrivals::Due& due) {
  tally(due, [](Tally& t) { ++t.offered; });
  Connection* connection = free_connection();
  if (!connection) {
    tally(due, [](Tally& t) { ++t.failed; });
    return;
  }
  connection->due = due;
  connection->busy = true;
  ++under_way_;
  if (!connection->http->send(plan_.request, tools::Body::kDrop)) return end(*connection, 0, -1);
  if (connection->http->wants_to_write()) watch(EPOLL_CTL_MOD, *connection);
}

void Load::end(Connection& connection, int status, int level) {
  const Duration took = clock_.now() - (started_ + connection.due.at);
  tally(connection.due, [&](Tally& t) {
    switch (status) {
      case 200:
        ++(took <= plan_.deadline ? t.in_time : t.late);
        ++t.levels[level];
        t.accepted.push_back(took);
        return;
      case 429:
        ++t.refused;
        return;
      case 504:
        ++t.expired;
        return;
      default:
        ++t.failed;
    }
  });
  if (status == 0) connection.http.reset();
  connection.busy = false;
  --under_way_;
  free_.push_back(&connection);
}

void Load::on_ready(Connection& connection) {
  if (!connection.http) return;
  const bool wrote = connection.http->wants_to_write();
  const auto whole = connection.http->go_on();
  if (!connection.busy) {  // closed while idle, or bytes that nobody asked for
    connection.http.reset();
    return;
  }
  if (!whole) return end(connection, 0, -1);
  if (wrote && !connection.http->wants_to_write()) watch(EPOLL_CTL_MOD, connection);
  if (!*whole) return;
  const tools::HttpAnswer& answer = connection.http->answer();
  end(connection, answer.status, answer.level().value_or(-1));
}

void Load::wait_until(TimePoint until) {
  const Duration left = std::max(until - clock_.now(), Duration{});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit{seconds.count(), (left - seconds) / 1ns};
  std::array<epoll_event, 64> events{};
  const int ready =
      ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
  for (int i = 0; i < ready; ++i) {
    on_ready(*static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
}

Result<void> Load::run() {
  const auto reached = tools::HttpConnection::open(plan_.port);
  if (!reached) return tl::unexpected(reached.error());
  started_ = clock_.now();
  for (auto due = arrivals_.next(); due; due = arrivals_.next()) {
    while (clock_.now() < started_ + due->at) wait_until(started_ + due->at);
    start(*due);
  }
  const TimePoint last = clock_.now() + plan_.deadline + kPatience;
  while (under_way_ > 0 && clock_.now() < last) wait_until(last);
  for (Connection& connection : connections_) {
    if (connection.busy) end(connection, 0, -1);
  }
  return {};
}

void Load::print() {
  const auto list = [](const char* name, std::vector<Tally>& tallies) {
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      if (i > 0) std::printf(", ");
      tallies[i].print();
    }
    std::printf("]");
  };
  std::printf("{");
  list("steps", steps_);
  std::printf(", ");
  list("seconds", seconds_);
  std::printf("}\n");
}

Result<std::vector<Step>> parse_steps(std::string_view text) {
  std::vector<Step> steps;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const auto colon = std::min(one.find(':'), one.size());
    const auto rate = parse_number<double>(one.substr(0, colon));
    const auto seconds = parse_number<double>(one.substr(std::min(colon + 1, one.size())));
    if (!rate || !seconds || !(*rate > 0) || !(*seconds > 0) || *seconds > 3600) {
      return fail(Code::kInvalid, std::string(one) + ": must be RATE:SECONDS, both over 0");
    }
    const std::chrono::duration<double> time(*seconds);
    steps.push_back({*rate, std::chrono::duration_cast<Duration>(time)});
  }
  return steps;
}

Result<Plan> plan_of(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) {
    return fail(Code::kInvalid,
                "usage: open_load PORT DEADLINE_MS SEED RATE:SECONDS[,RATE:SECONDS]… REQUEST_FILE");
  }
  const auto port = parse_number<std::uint16_t>(arguments[0]);
  const auto deadline_ms = parse_number<int>(arguments[1]);
  const auto seed = parse_number<std::uint64_t>(arguments[2]);
  auto steps = parse_steps(arguments[3]);
  auto request = read_file(arguments[4]);
  if (!port) return tl::unexpected(port.error());
  if (!deadline_ms) return tl::unexpected(deadline_ms.error());
  if (!seed) return tl::unexpected(seed.error());
  if (!steps) return tl::unexpected(steps.error());
  if (!request) return tl::unexpected(request.error());
  return Plan{*port, std::chrono::milliseconds(*deadline_ms), *seed, std::move(*steps),
              std::move(*request)};
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
