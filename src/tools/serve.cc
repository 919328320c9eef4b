#include "tools/serve.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "alerts/alerts.h"
#include "api/control/control.h"
#include "api/grpc/grpc_server.h"
#include "api/http/admin.h"
#include "api/http/http_server.h"
#include "api/http/metrics_routes.h"
#include "api/http/v2_routes.h"
#include "base/cpu_count.h"
#include "base/log.h"
#include "base/open_files.h"
#include "runtime/ort/ort_runtime.h"
#include "serving/ladder_engine.h"
#include "serving/temporary_folder.h"
#include "tools/signals.h"
#include "triton/describe.h"
#include "triton/read.h"

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
    for (const std::string& fault : model.all_faults()) err << fault << "\n";
    faulty = faulty || !model.all_faults().empty();
    for (const serving::ModelVersion& version : model.versions) {
      if (!version.faults.empty()) continue;
      out << "---\n# model " << model.name << ", version " << version.number << "\n";
      config::print_effective(out, version.config);
    }
  }
  return faulty ? 2 : 0;
}

template <class Says>
bool any_level(const std::vector<serving::ModelFolder>& models, Says says) {
  return std::ranges::any_of(models, [&](const serving::ModelFolder& model) {
    return std::ranges::any_of(model.versions, [&](const serving::ModelVersion& version) {
      return std::ranges::any_of(version.config.levels, says);
    });
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

// Starts to listen, which ends the process where it cannot be done; returns the port.
template <class Listener>
std::uint16_t start(Listener& listener, std::string_view who) {
  const auto port = listener.start();
  if (!port) {
    log::error(std::string(who) + port.error().message);
    std::_Exit(1);
  }
  return *port;
}

template <class Config>
std::string at(const std::string& scheme, const Config& config, std::uint16_t port) {
  return scheme + host_text(config.address) + ":" + std::to_string(port);
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

// Where KServe mounts what its pods serve, if nothing else is said.
std::vector<config::FlagValue> with_default_folder(const ServeOptions& options) {
  constexpr const char* kMounted = "/mnt/models";
  std::vector<config::FlagValue> flags = options.flags;
  std::error_code ignored;
  const bool is_said =
      options.config_file ||
      std::ranges::find(flags, "model_repositories", &config::FlagValue::key) != flags.end();
  if (!is_said && std::filesystem::is_directory(kMounted, ignored)) {
    flags.push_back({kMounted, "model_repositories", {kMounted}});
  }
  return flags;
}

Result<std::shared_ptr<api::Control>> control_of(const config::ServerConfig& server,
                                                 api::Permission permission) {
  auto control = std::make_shared<api::Control>();
  control->permission = std::move(permission);
  if (server.allow_client_shm) {
    control->shared_memory = std::make_unique<api::SharedMemory>(room_for_regions());
  }
  auto tracer = api::Tracer::make(server.trace);
  if (!tracer) return tl::unexpected(std::move(tracer.error()));
  control->tracer = std::move(*tracer);
  return control;
}

int run(const config::ServerConfig& server, const std::shared_ptr<api::Control>& control,
        serving::Repository repository, std::vector<serving::ModelFolder> models) {
  const TerminationSignals signals;
  serving::remove_left_over_folders();
  const Clock& clock = steady_clock();
  const int cpus = usable_cpus();
  const bool software_gpu = any_level(models, &config::LevelConfig::allow_software_gpu);
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
  // Models that come later may be isolated where none is now.
  const bool more_may_come = server.model_control_mode != config::ModelControl::kNone;
  worker::SharedPool pool({.shared = more_may_come || any_level(models, config::is_isolated)});
  serving::LadderEngine engine(
      std::move(models), std::move(repository), server,
      [&](const runtime::LoadSpec& spec) { return (*runtime)->load(spec); },
      {.cpus = cpus,
       .queue = {.entries = server.max_queue_size, .bytes = server.max_queue_bytes},
       .workers = worker_options(server, software_gpu, pool),
       .observer = [&](const serving::Event& event) { alerts.tell(event); },
       .describe = triton::describe},
      clock, pool);
  api::V2Routes routes(engine, server.http, kVersion, api::Admin(control->permission), control);
  api::HttpServer http(server.http, routes, cpus, clock, pool);
  api::MetricsRoutes metrics_routes(engine, [&alerts] { return receivers_of(alerts); });
  api::HttpServer metrics(http_of(server.metrics), metrics_routes, 1, clock, pool, kScrapers);
  if (server.metrics.enabled) {
    log::info("metrics on " + at("http://", server.metrics, start(metrics, "metrics: ")) +
              "/metrics");
  }
  api::GrpcServer grpc(server.grpc, engine, clock, pool, kVersion, control);
  const std::uint16_t grpc_port = server.grpc.enabled ? start(grpc, "") : std::uint16_t{0};
  if (server.grpc.enabled) log::info("grpc on " + at("", server.grpc, grpc_port));
  const std::uint16_t port = server.http.enabled ? start(http, "http: ") : grpc_port;
  // Not before: a running server of the same command line has the ports, and the file.
  if (const auto traced = control->tracer->start(); !traced) {
    log::error(traced.error().message);
    std::_Exit(1);
  }
  leaving = {};
  alerts.start(instance_name(port));
  log::info(server.http.enabled ? "listening on " + at("http://", server.http, port)
                                : std::string("listening for gRPC alone"),
            {{"onnxruntime", (*runtime)->version()}, {"cpus", std::to_string(cpus)}});

  signals.wait();
  engine.begin_drain();
  log::info("draining: not ready any more; what is in flight and what still arrives is answered",
            {{"exit_timeout_ms", std::to_string(server.exit_timeout.count())}});
  const bool quiet = drain(http, grpc, engine, signals, server.exit_timeout, clock);
  grpc.stop(1s);
  http.stop(clock.now() + 1s);
  control->tracer->flush(1s);
  alerts.stop(kLastAlerts);
  if (quiet) {
    log::info("drained");
  } else {
    log::warning("the grace time is over with connections still open");
  }
  serving::remove_temporary_folders();
  // Destructors of drivers may hang or abort, and nothing is left that they would have to save.
  std::_Exit(0);
}

}  // namespace

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  auto server = config::load_server_config(
      options.config_file, config::ort_providers_from_environment(), with_default_folder(options));
  if (!server) {
    for (const std::string& fault : server.error()) err << fault << "\n";
    return 2;
  }
  if (server->model_name.empty()) server->model_name = config::model_name_from_environment();
  if (!server->http.enabled && !server->grpc.enabled) {
    err << "http.enabled and grpc.enabled are both false: nobody could ask for anything\n";
    return 2;
  }
  log::configure(server->log_level, server->log_format);
  for (const std::string& remark : options.remarks) log::warning(remark);
  serving::Repository repository(*server, triton::read_config);
  auto models = repository.scan();
  if (!models) {
    err << models.error().message << "\n";
    return 2;
  }
  auto permission = api::Permission::open(server->admin);
  if (!permission) {
    err << permission.error().message << "\n";
    return 2;
  }
  if (options.check_config) return check_config(*server, *models, out, err);
  if (const std::size_t fewest = fewest_files(usable_cpus()); limit_of_files() < fewest) {
    err << "the limit of open files (ulimit -n) is " << limit_of_files() << ": must be at least "
        << fewest << "\n";
    return 1;
  }
  const auto control = control_of(*server, std::move(*permission));
  if (!control) {
    err << control.error().message << "\n";
    return 2;
  }
  return run(*server, *control, std::move(repository), std::move(*models));
}

}  // namespace gradus::tools
