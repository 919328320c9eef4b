#include "closed_loop.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "files.h"
#include "latencies.h"

namespace gradus::bench {
namespace {

constexpr double kWarmUpShare = 0.25;  // of the measured time, before it
constexpr float kTolerance = 1e-4f;    // batching may change the order of sums

// CPU time of all threads that the process had; of another process: clock_getcpuclockid(3).
Duration cpu_time(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
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

}  // namespace

Result<Plan> plan_of(std::string_view program, const std::vector<std::string>& arguments) {
  if (arguments.size() < 5 || arguments.size() > 6) {
    return fail(Code::kInvalid, "usage: " + std::string(program) +
                                    " PORT SERVER_PID CONNECTIONS SECONDS REQUEST_FILE[,…] "
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

Result<void> check_server(const Plan& plan) {
  if (cpu_time(plan.server) != Duration{}) return {};
  return fail(Code::kNotFound, "process " + std::to_string(plan.server) + ": no such process");
}

Measurement::Measurement(const Plan& plan, TimePoint now)
    : plan_(plan), from_(now + std::chrono::duration_cast<Duration>(plan.time * kWarmUpShare)) {}

Measurement::Mark Measurement::mark(TimePoint now) const {
  return {now, cpu_time(plan_.server), cpu_time(0)};
}

bool Measurement::count(TimePoint now, TimePoint sent_at, std::optional<int> level) {
  if (!first_) {
    if (now >= from_) first_ = mark(now);
  } else if (!last_) {
    latencies_.push_back(now - sent_at);
    ++levels_[level.value_or(-1)];
    if (now >= first_->at + plan_.time) last_ = mark(now);
  }
  return !last_;
}

void Measurement::print(std::size_t body_bytes, std::size_t sent) {
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
      each_us(last_->client_cpu - first_->client_cpu), body_bytes, sent);
  const char* comma = "";
  for (const auto& [level, count] : levels_) {
    std::printf("%s\"%d\": %zu", comma, level, count);
    comma = ", ";
  }
  std::printf("}}\n");
}

int run_plan(std::string_view program, const std::vector<std::string>& arguments,
             Result<void> (*load)(const Plan& plan)) {
  const auto plan = plan_of(program, arguments);
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().message.c_str());
    return 2;
  }
  if (const auto done = load(*plan); !done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace gradus::bench
