// What `gradus serve` is told by flags, `--config FILE` and the environment, in that precedence.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"

namespace gradus::config {

struct HttpConfig {
  bool enabled = true;  // false: nothing listens; not both HTTP and gRPC
  std::string address = "127.0.0.1";
  std::uint16_t port = 8000;                   // 0: any free port
  std::uint64_t max_input_size = 64ull << 20;  // bytes of one body, compressed or not
  std::uint32_t max_header_size = 16 << 10;    // bytes of one request's header
  std::uint32_t max_json_depth = 100;
  std::chrono::milliseconds header_timeout{10'000};  // to send a whole header
  std::chrono::milliseconds body_timeout{60'000};    // to send a whole body
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of one connection
  bool operator==(const HttpConfig&) const = default;
};

struct GrpcConfig {
  bool enabled = true;  // false: nothing listens
  std::string address = "127.0.0.1";
  std::uint16_t port = 8001;                  // 0: any free port
  std::uint32_t max_input_size = 2147483647;  // bytes of one message; gRPC has no larger ones
  std::chrono::milliseconds keepalive_time{7'200'000};  // without a word, then a ping is sent
  std::chrono::milliseconds keepalive_timeout{20'000};  // for its answer
  bool keepalive_permit_without_calls = false;          // either side may ping without a call
  std::chrono::milliseconds http2_min_recv_ping_interval_without_data{300'000};
  std::uint32_t http2_max_ping_strikes = 2;               // pings that come sooner; 0: no bound
  std::chrono::milliseconds max_connection_age{0};        // 0: no bound
  std::chrono::milliseconds max_connection_age_grace{0};  // for calls under way; 0: no bound
  bool operator==(const GrpcConfig&) const = default;
};

/// Who is told of events; docs/alerts.md.
struct AlertsConfig {
  std::string alertmanager_url;              // without /api/v2/alerts; empty: none
  std::string webhook_url;                   // empty: none
  std::chrono::milliseconds timeout{5'000};  // of one try, until it is answered
  std::chrono::milliseconds resend{60'000};  // Alertmanager is told again of what still fires
  bool operator==(const AlertsConfig&) const = default;
};

struct MetricsConfig {
  bool enabled = true;  // false: nothing listens
  std::string address = "127.0.0.1";
  std::uint16_t port = 8002;  // 0: any free port
  bool operator==(const MetricsConfig&) const = default;
};

/// Which models are loaded, and when; as Triton's modes.
enum class ModelControl {
  kNone,      // all, at the start
  kPoll,      // all, and what changes in the repositories
  kExplicit,  // what clients ask for
};

/// Who may change how the server behaves; docs/operator.md. By default nobody.
struct AdminConfig {
  std::string token_file;  // whose bearer token allows it; empty: none
  bool allow_from_loopback = false;
  bool operator==(const AdminConfig&) const = default;
};

enum class TraceLevel { kOff, kTimestamps };

/// Which requests' times are written to a file; docs/protocol.md.
struct TraceConfig {
  std::string file;  // empty: none, and clients cannot have any
  TraceLevel level = TraceLevel::kOff;
  std::uint32_t rate = 1000;        // one of so many requests, >= 1
  std::int64_t count = -1;          // so many traces, then no more; -1: no bound
  std::uint32_t log_frequency = 0;  // so many traces a file; 0: all in one
  bool operator==(const TraceConfig&) const = default;
};

struct ServerConfig {
  std::vector<std::string> model_repositories;
  std::string model_name;  // of a repository that is one model itself; "": its folder's name
  ModelControl model_control_mode = ModelControl::kNone;
  std::vector<std::string> load_models;     // at the start, in explicit mode; `*`: all
  std::uint32_t repository_poll_secs = 15;  // 1 s..1 day, in poll mode
  HttpConfig http;
  GrpcConfig grpc;
  MetricsConfig metrics;
  AlertsConfig alerts;
  AdminConfig admin;
  TraceConfig trace;
  bool allow_client_shm = false;                      // clients may register shared memory
  std::chrono::milliseconds exit_timeout{30'000};     // grace time of a drain
  std::optional<std::vector<std::string>> providers;  // full names, in order; nothing: the default
  std::map<std::string, std::string> provider_libraries;  // provider name -> absolute path
  std::uint32_t max_queue_size = 1024;         // requests waiting for one level, 1..1'000'000
  std::uint64_t max_queue_bytes = 1ull << 30;  // of their inputs, 1..2^50
  std::chrono::milliseconds worker_restart_backoff{100};  // before a lost worker's first restart
  std::uint32_t worker_crash_loop_deaths = 5;             // within a minute, 2..1'000'000
  std::chrono::milliseconds worker_crash_loop_pause{60'000};  // before the next restart then
  log::Severity log_level = log::Severity::kInfo;
  log::Format log_format = log::Format::kText;
  bool operator==(const ServerConfig&) const = default;
};

}  // namespace gradus::config
