// main() of `gradus`: parses the command line, calls src/tools, returns the exit code
// (0 ok, 1 failed, 2 usage).
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/drill.h"
#include "tools/ladder.h"
#include "tools/serve.h"
#include "tools/simulate.h"
#include "tools/worker.h"
#include "triton_flags.h"

namespace {

using gradus::config::FlagValue;

// A flag that sets a key of the server's configuration; `gradus serve --help` shows the text.
struct Flag {
  const char* flag;
  const char* key;
  const char* value;
  const char* help;
};

constexpr Flag kServeFlags[] = {
    {"--model-name", "model_name", "NAME",
     "of a repository that is one model itself; also MODEL_NAME (the folder's name)"},
    {"--model-control-mode", "model_control_mode", "MODE",
     "none: all models at the start; poll: and what changes; explicit: what clients load (none)"},
    {"--repository-poll-secs", "repository_poll_secs", "S", "between two looks in mode poll (15)"},
    {"--http-address", "http.address", "ADDRESS", "where HTTP listens (127.0.0.1)"},
    {"--http-port", "http.port", "PORT", "HTTP port (8000); 0 picks a free one and logs it"},
    {"--http-max-input-size", "http.max_input_size", "BYTES", "largest body (67108864)"},
    {"--grpc-address", "grpc.address", "ADDRESS", "where gRPC listens (127.0.0.1)"},
    {"--grpc-port", "grpc.port", "PORT", "gRPC port (8001); 0 picks a free one and logs it"},
    {"--grpc-keepalive-time", "grpc.keepalive_time_ms", "MS",
     "a client that says nothing for so long is sent a ping (7200000)"},
    {"--grpc-keepalive-timeout", "grpc.keepalive_timeout_ms", "MS", "to answer it (20000)"},
    {"--grpc-http2-min-recv-ping-interval-without-data",
     "grpc.http2_min_recv_ping_interval_without_data_ms", "MS",
     "least time between a client's pings without data (300000)"},
    {"--grpc-http2-max-ping-strikes", "grpc.http2_max_ping_strikes", "N",
     "pings that may come sooner; 0: no bound (2)"},
    {"--grpc-max-connection-age", "grpc.max_connection_age_ms", "MS",
     "after which clients are told to open another connection (0: no bound)"},
    {"--grpc-max-connection-age-grace", "grpc.max_connection_age_grace_ms", "MS",
     "for the calls under way on an old connection (0: no bound)"},
    {"--metrics-address", "metrics.address", "ADDRESS", "where /metrics listens (127.0.0.1)"},
    {"--metrics-port", "metrics.port", "PORT",
     "port of GET /metrics (8002); 0 picks a free one and logs it"},
    {"--providers", "providers", "LIST",
     "ONNX Runtime providers allowed, best first: CUDA,CPU or full names; also ORT_PROVIDERS"},
    {"--exit-timeout-ms", "exit_timeout_ms", "MS", "grace time after SIGTERM (30000)"},
    {"--alertmanager-url", "alerts.alertmanager_url", "URL",
     "Alertmanager to tell of events, http://host:9093 (none)"},
    {"--webhook-url", "alerts.webhook_url", "URL",
     "gets each event as a JSON object; docs/alerts.md (none)"},
    {"--admin-token-file", "admin.token_file", "FILE",
     "whoever has the token in it may pin levels, change log and traces; docs/operator.md (none)"},
    {"--trace-file", "trace.file", "FILE",
     "where traces of requests are written; docs/protocol.md (none)"},
    {"--trace-level", "trace.level", "LEVEL", "OFF or TIMESTAMPS (OFF)"},
    {"--trace-rate", "trace.rate", "N", "one of so many requests is traced (1000)"},
    {"--trace-count", "trace.count", "N", "so many traces, then no more (-1: no bound)"},
    {"--trace-log-frequency", "trace.log_frequency", "N",
     "so many traces a file, FILE.0, FILE.1 and so on (0: all in FILE)"},
    {"--log-level", "log_level", "LEVEL", "debug, info, warning or error (info)"},
    {"--log-format", "log_format", "FORMAT", "text or json (text)"},
};

// Switches, as tritonserver has them.
constexpr Flag kSwitches[] = {
    {"--allow-http", "http.enabled", "BOOL", "false: HTTP does not listen (true)"},
    {"--allow-grpc", "grpc.enabled", "BOOL", "false: gRPC does not listen (true)"},
    {"--allow-metrics", "metrics.enabled", "BOOL", "false: /metrics does not listen (true)"},
    {"--grpc-keepalive-permit-without-calls", "grpc.keepalive_permit_without_calls", "BOOL",
     "pings may be sent, by either side, while no call is under way (false)"},
    {"--allow-client-shm", "allow_client_shm", "BOOL",
     "clients may register shared memory of this machine; docs/protocol.md (false)"},
};

// tritonserver's forms of a switch: none at all is true, so is 1.
std::string switch_text(const std::vector<std::string>& values) {
  std::string text = values.empty() ? "" : values.back();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text.empty() || text == "1") return "true";
  return text == "0" ? "false" : text;
}

// `rate=100` of --trace-config, or `triton,file=trace.json`.
void add_trace_setting(std::string_view setting, gradus::tools::ServeOptions& options) {
  constexpr const char* kFlag = "--trace-config";
  constexpr std::string_view kMode = "triton,";
  if (setting.starts_with(kMode)) setting.remove_prefix(kMode.size());
  const std::size_t equals = setting.find('=');
  std::string key(setting.substr(0, equals));
  std::string value(equals == setting.npos ? "" : setting.substr(equals + 1));
  if (key == "mode" && value == "triton") return;
  if (key == "mode" || key.find(',') != key.npos) {
    throw CLI::ValidationError(kFlag, "only Triton's own traces can be written, no OpenTelemetry");
  }
  std::ranges::replace(key, '-', '_');  // log-frequency
  options.flags.push_back({kFlag, "trace." + key, {std::move(value)}});
}

// tritonserver's flags that are not ours: set what is meant, leave a remark, or refuse.
void add_triton_flags(CLI::App& serve, gradus::tools::ServeOptions& options) {
  using gradus::apps::TritonFlag;
  const auto add = [&serve](const char* flag, auto act) {
    return serve
        .add_option(flag,
                    [act](const std::vector<std::string>& values) {
                      act(values);
                      return true;
                    })
        ->group("")
        ->expected(0, 1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  const auto no_effect = [&options](const std::string& flag, const char* why) {
    options.remarks.push_back(flag + " has no effect: " + why);
  };
  const auto log_level = [&options](std::string flag, const char* level) {
    options.flags.push_back({std::move(flag), "log_level", {level}});
  };
  add("--log-info", [log_level](const auto& values) {
    if (switch_text(values) == "false") log_level("--log-info", "warning");
  });
  add("--log-warning", [log_level](const auto& values) {
    if (switch_text(values) == "false") log_level("--log-warning", "error");
  });
  add("--log-error", [no_effect](const auto& values) {
    if (switch_text(values) == "false") no_effect("--log-error", "errors are always logged");
  });
  add("--log-verbose", [log_level](const auto& values) {
    if (switch_text(values) != "false") log_level("--log-verbose", "debug");
  });
  add("--exit-timeout-secs", [&options](const auto& values) {
    options.flags.push_back({"--exit-timeout-secs", "exit_timeout_ms", {values.back() + "000"}});
  });
  add("--trace-config",
      [&options](const auto& values) {
        for (const std::string& value : values) add_trace_setting(value, options);
      })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1);
  for (const gradus::apps::TritonFlagRow& row : gradus::apps::kTritonFlags) {
    add(row.flag, [row, no_effect](const auto& values) {
      const std::string said = switch_text(values);
      if (row.becomes == TritonFlag::kNoEffect ||
          (row.becomes == TritonFlag::kOnlyTrue && said != "true")) {
        no_effect(row.flag, row.why);
      } else if (row.becomes == TritonFlag::kRefused ||
                 (row.becomes == TritonFlag::kOnlyFalse && said != "false")) {
        throw CLI::ValidationError(row.flag, row.why);
      }
    });
  }
}

// tritonserver listens on every interface unless it is told otherwise.
void listen_everywhere(gradus::tools::ServeOptions& options) {
  if (options.config_file) return;
  for (const char* key : {"http.address", "grpc.address", "metrics.address"}) {
    options.flags.insert(options.flags.begin(), {"tritonserver", key, {"0.0.0.0"}});
  }
}

// The words of the command line without the program's name. Called as `tritonserver` (a link to
// this program), or with that word first as container images are, it is `serve`.
std::vector<std::string> words_of(int argc, char** argv, bool& as_tritonserver) {
  constexpr std::string_view kTriton = "tritonserver";
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::string_view program = argc > 0 ? argv[0] : "";
  if (program.substr(program.rfind('/') + 1) == kTriton)
    words.insert(words.begin(), kTriton.data());
  as_tritonserver = !words.empty() && words[0] == kTriton;
  if (as_tritonserver) words[0] = "serve";
  return words;
}

void add_serve(CLI::App& app, gradus::tools::ServeOptions& options) {
  CLI::App* const serve = app.add_subcommand(
      "serve", "serve the models of a repository over KServe v2, each down its ladder of levels");
  const auto append = [&options](std::string flag, std::string key) {
    return [&options, flag, key](std::vector<std::string> values) {
      const bool as_triton = key == "log_format" && !values.empty() &&
                             (values[0] == "default" || values[0] == "ISO8601");
      if (as_triton) values = {"text"};
      options.flags.push_back({flag, key, std::move(values)});
      return true;
    };
  };
  serve
      ->add_option(
          "--model-repository,--model-store", append("--model-repository", "model_repositories"),
          "folder of models, <folder>/<model>/<version>/model.onnx, or one model's folder; may be "
          "repeated (/mnt/models, if it is there)")
      ->type_name("DIR")
      ->expected(1, -1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  serve
      ->add_option("--load-model", append("--load-model", "load_models"),
                   "loaded at the start in mode explicit, may be repeated; * alone is all")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  serve->set_version_flag("--version", std::string("gradus ") + gradus::tools::kVersion)->group("");
  serve->footer("tritonserver's flags are understood too: docs/compatibility.md");
  add_triton_flags(*serve, options);
  for (const Flag& flag : kSwitches) {
    serve
        ->add_option(
            flag.flag,
            [append, flag](const std::vector<std::string>& values) {
              return append(flag.flag, flag.key)({switch_text(values)});
            },
            flag.help)
        ->type_name(flag.value)
        ->expected(0, 1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  for (const Flag& flag : kServeFlags) {
    serve->add_option(flag.flag, append(flag.flag, flag.key), flag.help)
        ->type_name(flag.value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  serve
      ->add_option("--config", options.config_file, "YAML file; docs/configuration.md has its keys")
      ->type_name("FILE");
  serve->add_flag_function(
      "--allow-admin-from-loopback",
      [append](std::int64_t) {
        append("--allow-admin-from-loopback", "admin.allow_from_loopback")({"true"});
      },
      "whoever calls from this machine may pin levels, change log and traces; docs/operator.md");
  serve->add_flag("--check-config", options.check_config,
                  "print the effective configuration of server and models, and exit");
}

void add_drill(CLI::App& app, gradus::tools::DrillOptions& options) {
  CLI::App* const drill = app.add_subcommand(
      "drill",
      "break level 0 of a model in many ways under load, on a server of its own or on one that "
      "runs, and report what the clients saw; exit code 1 if any request failed or was answered "
      "wrongly, or the ladder did not do what it promises");
  const auto text = [drill](const char* flag, auto& value, const char* type, const char* help) {
    return drill->add_option(flag, value, help)->type_name(type);
  };
  text("--model-repository", options.model_repository, "DIR",
       "folder of models, for a server of its own");
  text("--url", options.url, "URL", "a running server on this machine: http://127.0.0.1:8000");
  text("--model", options.model, "NAME", "the model to drill")->required();
  text("--fault", options.faults, "LIST", "which, like kill,hang,oom (all that can be done)");
  text("--provider", options.provider, "NAME", "of level 0 (the fault provider)");
  text("--control", options.control, "FILE", "of a running server's fault provider");
  drill->add_flag("--yes", options.yes, "break a running server without asking");
  text("--trials", options.trials, "N", "of each fault (1)")->check(CLI::Range(1, 100'000));
  text("--rate", options.rate, "R", "requests a second (25 % of what the CPU level can take)")
      ->check(CLI::Range(0.01, 100'000.0));
  text("--json", options.json, "FILE", "write the report there as JSON too");
  const auto seconds = [drill](const char* flag, auto& value, double least, double most,
                               const char* help) {
    drill
        ->add_option_function<double>(
            flag, [&value](double given) { value = gradus::tools::DrillOptions::Seconds(given); },
            help)
        ->type_name("S")
        ->check(CLI::Range(least, most));
  };
  constexpr double kDay = 86'400;
  seconds("--hold", options.hold, 0.05, kDay, "good seconds before level 0 is used again");
  seconds("--max-hold", options.max_hold, 0.05, kDay, "the hold's cap after relapses");
  seconds("--cooldown", options.cooldown, 0, kDay, "least seconds between soft moves down");
  seconds("--breaker", options.breaker, 0.001, kDay, "until an open breaker allows a trial");
  seconds("--restart-backoff", options.restart_backoff, 0.001, 30, "before a worker's restart");
}

void add_ladder(CLI::App& app, gradus::tools::LadderOptions& options) {
  CLI::App* const ladder = app.add_subcommand(
      "ladder",
      "show the ladders of a running server as a table, or tell one what to do; docs/operator.md");
  const auto text = [ladder](const char* flag, auto& value, const char* type, const char* help) {
    return ladder->add_option(flag, value, help)->type_name(type);
  };
  text("model", options.model, "MODEL", "whose ladder (all)");
  text("verb", options.verb, "VERB",
       "pin: the level is the current one while it is ready; unpin; disable: the level gets no "
       "requests and no probes; enable");
  text("level", options.level, "LEVEL", "its number; unpin takes none");
  text("--url", options.url, "URL", "the server (http://127.0.0.1:8000)");
  text("--for", options.how_long, "TIME",
       "of pin, 1s to 30d: 90s, 15m, 2h, 1d (until it is unpinned)");
  text("--reason", options.reason, "TEXT", "for the status, the log and alerts");
  text("--token-file", options.token_file, "FILE", "as the server's --admin-token-file");
}

void add_simulate(CLI::App& app, gradus::tools::SimulateOptions& options) {
  CLI::App* const simulate = app.add_subcommand(
      "simulate",
      "try a policy on a load and on faults in virtual time, before production: the server's own "
      "policy, estimates and plans; docs/simulation.md");
  const auto text = [simulate](const char* flag, auto& value, const char* type, const char* help) {
    return simulate->add_option(flag, value, help)->type_name(type);
  };
  text("--scenario", options.scenario, "NAME", "flapping, gpu-loss, gpu-slow or load-step");
  text("--trace", options.trace, "FILE", "a scenario of your own: levels, arrivals, faults (YAML)");
  text("--policy", options.policy, "FILE",
       "thresholds, as below policy: in gradus.yaml (the defaults)");
  text("--seed", options.seed, "N", "of chance (the scenario's); the same one, the same outcome")
      ->check(CLI::NonNegativeNumber);
  text("--rule", options.rule, "NAME",
       "gradus, or to compare: none (level 0 alone), published (level 0, then the next if that "
       "fails or is slow), hysteresis (the ladder without plans, hedging and canary)");
  simulate->add_flag("--compare", options.compare, "a row for each rule");
  text("--json", options.json, "FILE", "write the report there as JSON too");
  text("--svg", options.svg, "FILE", "draw the timeline there");
}

}  // namespace

int main(int argc, char** argv) {
  // Buffers of some hundred KiB come and go with each request: keep them, since fresh pages are
  // dear.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 64 << 20);  // a burst beyond this is given back
  signal(SIGPIPE, SIG_IGN);             // a log whose reader is gone must not end the server

  CLI::App app("Gradus: a model inference server that steps down instead of falling over.",
               "gradus");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("gradus ") + gradus::tools::kVersion);
  gradus::tools::ServeOptions serve;
  add_serve(app, serve);
  gradus::tools::DrillOptions drill;
  add_drill(app, drill);
  gradus::tools::SimulateOptions simulate;
  add_simulate(app, simulate);
  gradus::tools::LadderOptions ladder;
  add_ladder(app, ladder);
  pid_t server = 0;  // of a worker, which only a server starts: no word of it in --help
  CLI::App* const worker = app.add_subcommand("worker")->group("");
  worker->add_option("server", server)->required();
  bool as_tritonserver = false;
  try {
    std::vector<std::string> words = words_of(argc, argv, as_tritonserver);
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (as_tritonserver) listen_everywhere(serve);
  if (app.get_subcommands().empty()) {
    std::cerr << "a subcommand is needed\n\n" << app.help();
    return 2;
  }
  if (worker->parsed()) gradus::tools::worker(server);
  if (app.got_subcommand("drill")) {
    drill.terminal = isatty(STDIN_FILENO) == 1;
    return gradus::tools::drill(drill, std::cin, std::cout, std::cerr);
  }
  if (app.got_subcommand("ladder")) return gradus::tools::ladder(ladder, std::cout, std::cerr);
  if (app.got_subcommand("simulate")) {
    return gradus::tools::simulate(simulate, std::cout, std::cerr);
  }
  return gradus::tools::serve(serve, std::cout, std::cerr);
}
