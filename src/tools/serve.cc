#include "tools/serve.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "alerts/alerts.h"
#include "api/grpc/grpc_server.h"
#include "api/http/admin.h"
#include "api/http/http_server.h"
#include "api/http/metrics_routes.h"
#include "api/http/v2_routes.h"
#include "base/cpu_count.h"
#include "base/log.h"
#include "runtime/ort/ort_runtime.h"
#include "serving/ladder_engine.h"
#include "tools/signals.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

// A drain is over when no inference has come for so long and no connection is open.
constexpr auto kQuiet = 2s;

// For what receivers of alerts are still to be told at the end.
constexpr auto kLastAlerts = 2s;

// Effective values to `out`; faults of models to `err`.
int check_config(const config::ServerConfig& server,
                 const std::vector<serving::ModelFolder>& models, std::ostream& out,
                 std::ostream& err) {
  config::print_effective(out, server);
  bool faulty = false;
  for (const serving::ModelFolder& model : models) {
    for (const std::string& fault : model.faults) err << fault << "\n";
    if (!model.faults.empty()) {
      faulty = true;
      continue;
    }
    out << "---\n# model " << model.name << ", version " << model.version << "\n";
    config::print_effective(out, model.config);
  }
  return faulty ? 2 : 0;
}

bool any_is_isolated(const std::vector<serving::ModelFolder>& models) {
  return std::ranges::any_of(models, [](const serving::ModelFolder& model) {
    return std::ranges::any_of(model.config.levels, config::is_isolated);
  });
}

bool any_allows_software_gpu(const std::vector<serving::ModelFolder>& models) {
  return std::ranges::any_of(models, [](const serving::ModelFolder& model) {
    return std::ranges::any_of(model.config.levels, &config::LevelConfig::allow_software_gpu);
  });
}

// `timeout` and shells signal a process and then its group: what comes so soon is the same wish.
constexpr auto kSameSignal = 100ms;

// True: all was answered and it grew quiet; false: the grace time is over. Does not return when a
// second signal comes.
bool drain(api::HttpServer& http, const api::GrpcServer& grpc, const serving::LadderEngine& engine,
           const TerminationSignals& signals, Duration grace, const Clock& clock) {
  http.drain();
  const TimePoint begun = clock.now();
  const TimePoint end = begun + grace;
  TimePoint busy = begun;
  std::uint64_t seen = engine.inferences();
  while (clock.now() < end) {
    const std::uint64_t inferences = engine.inferences();
    if (inferences != seen || http.connections() > 0 || grpc.under_way() > 0) busy = clock.now();
    seen = inferences;
    if (clock.now() - busy >= kQuiet) return true;
    if (signals.wait_for(20ms) && clock.now() - begun > kSameSignal) {
      log::warning("a second signal: leaving at once");
      std::_Exit(1);
    }
  }
  return http.connections() == 0 && grpc.under_way() == 0;
}

// Until it is destroyed a signal ends the process at once: there is nothing to drain yet.
std::jthread leave_on_signal(const TerminationSignals& signals) {
  return std::jthread([&signals](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (signals.wait_for(50ms)) std::_Exit(0);
    }
  });
}

// An IPv6 address stands in brackets (RFC 3986, 3.2.2).
std::string host_text(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

// Who scrapes is asked for no body and needs few connections.
constexpr std::size_t kScrapers = 64;

config::HttpConfig http_of(const config::MetricsConfig& metrics) {
  config::HttpConfig http;
  http.address = metrics.address;
  http.port = metrics.port;
  http.max_input_size = 1;
  return http;
}

// Who this server is to receivers of alerts.
std::string instance_name(std::uint16_t port) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return std::string(host) + ":" + std::to_string(port);
}

std::vector<metrics::ReceiverView> receivers_of(const alerts::Alerts& alerts) {
  std::vector<metrics::ReceiverView> views;
  for (const auto& [receiver, counters] : alerts.counters()) {
    views.push_back({receiver, counters.sent, counters.dropped, counters.waiting, counters.failed});
  }
  return views;
}

worker::Supervisor::Options worker_options(const config::ServerConfig& server, bool software_gpu,
                                           const worker::SharedPool& pool) {
  worker::Supervisor::Options options;
  options.worker.greeting = {.version = kVersion,
                             .log_level = server.log_level,
                             .log_format = server.log_format,
                             .allow_software_gpu = software_gpu,
                             .provider_libraries = server.provider_libraries};
  options.worker.pool = &pool;
  options.restart.first = server.worker_restart_backoff;
  options.restart.loop_deaths = server.worker_crash_loop_deaths;
  options.restart.loop_pause = server.worker_crash_loop_pause;
  options.seed = static_cast<std::uint64_t>(wall_now().time_since_epoch().count());
  return options;
}

int run(const config::ServerConfig& server, api::Admin admin,
        std::vector<serving::ModelFolder> models) {
  const TerminationSignals signals;
  const Clock& clock = steady_clock();
  const int cpus = usable_cpus();
  const bool software_gpu = any_allows_software_gpu(models);
  std::jthread leaving = leave_on_signal(signals);  // loading a provider's library may hang
  const auto runtime = runtime::OrtRuntime::create({.provider_libraries = server.provider_libraries,
                                                    .verbose = log::enabled(log::Severity::kDebug),
                                                    .allow_software_gpu = software_gpu});
  if (!runtime) {
    log::error(runtime.error().message);
    return 1;
  }
  alerts::Alerts alerts(server.alerts, clock,
                        static_cast<std::uint64_t>(wall_now().time_since_epoch().count()));
  worker::SharedPool pool({.shared = any_is_isolated(models)});
  serving::LadderEngine engine(
      std::move(models), [&](const runtime::LoadSpec& spec) { return (*runtime)->load(spec); },
      {.cpus = cpus,
       .queue = {.entries = server.max_queue_size, .bytes = server.max_queue_bytes},
       .workers = worker_options(server, software_gpu, pool),
       .observer = [&](const serving::Event& event) { alerts.tell(event); }},
      clock, pool);
  api::V2Routes routes(engine, server.http, kVersion, std::move(admin));
  api::HttpServer http(server.http, routes, cpus, clock, pool);
  api::MetricsRoutes metrics_routes(engine, [&alerts] { return receivers_of(alerts); });
  api::HttpServer metrics(http_of(server.metrics), metrics_routes, 1, clock, pool, kScrapers);
  const auto metrics_port = metrics.start();
  if (!metrics_port) {
    log::error("metrics: " + metrics_port.error().message);
    std::_Exit(1);
  }
  log::info("metrics on http://" + host_text(server.metrics.address) + ":" +
            std::to_string(*metrics_port) + "/metrics");
  api::GrpcServer grpc(server.grpc, engine, clock, kVersion);
  const auto grpc_port = grpc.start();
  if (!grpc_port) {
    log::error(grpc_port.error().message);
    std::_Exit(1);
  }
  log::info("grpc on " + host_text(server.grpc.address) + ":" + std::to_string(*grpc_port));
  const auto port = http.start();
  if (!port) {
    log::error(port.error().message);
    std::_Exit(1);
  }
  leaving = {};
  alerts.start(instance_name(*port));
  log::info("listening on http://" + host_text(server.http.address) + ":" + std::to_string(*port),
            {{"onnxruntime", (*runtime)->version()}, {"cpus", std::to_string(cpus)}});

  signals.wait();
  engine.begin_drain();
  log::info("draining: not ready any more; what is in flight and what still arrives is answered",
            {{"exit_timeout_ms", std::to_string(server.exit_timeout.count())}});
  const bool quiet = drain(http, grpc, engine, signals, server.exit_timeout, clock);
  grpc.stop(1s);
  http.stop(clock.now() + 1s);
  alerts.stop(kLastAlerts);
  if (quiet) {
    log::info("drained");
  } else {
    log::warning("the grace time is over with connections still open");
  }
  // Destructors of drivers may hang or abort, and nothing is left that they would have to save.
  std::_Exit(0);
}

}  // namespace

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  const auto server = config::load_server_config(
      options.config_file, config::ort_providers_from_environment(), options.flags);
  if (!server) {
    for (const std::string& fault : server.error()) err << fault << "\n";
    return 2;
  }
  if (server->model_repositories.empty()) {
    err << "no model repository: give --model-repository DIR\n";
    return 2;
  }
  log::configure(server->log_level, server->log_format);
  auto models = serving::scan_repositories(*server);
  if (!models) {
    err << models.error().message << "\n";
    return 2;
  }
  auto admin = api::Admin::open(server->admin);
  if (!admin) {
    err << admin.error().message << "\n";
    return 2;
  }
  if (options.check_config) return check_config(*server, *models, out, err);
  return run(*server, std::move(*admin), std::move(*models));
}

}  // namespace gradus::tools
