#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "unit/config/config_test_support.h"

namespace gradus::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

const FlagValue kRepository{"--model-repository", "model_repositories", {"/models"}};

ServerConfig loaded_server(const std::optional<std::filesystem::path>& file,
                           const std::optional<std::string>& ort_providers = {},
                           const std::vector<FlagValue>& flags = {}) {
  const auto config = load_server_config(file, ort_providers, flags);
  EXPECT_TRUE(config) << (config ? "" : lines(config.error()));
  return config ? *config : ServerConfig{};
}

TEST(ServerConfig, WithoutAFileHasTheDefaultsAndTheFlags) {
  ServerConfig expected;
  expected.model_repositories = {"/models"};
  EXPECT_EQ(loaded_server(std::nullopt, std::nullopt, {kRepository}), expected);
}

constexpr const char* kFull = R"(
model_repositories: [/a, "b c"]
http:
  address: "::1"
  port: 0
  max_input_size: 1099511627776
  max_header_size: 4096
  max_json_depth: 7
  header_timeout_ms: 1
  body_timeout_ms: 2
  idle_timeout_ms: 3
grpc:
  address: "::"
  port: 9000
  max_input_size: 2147483647
  keepalive_time_ms: 1
  keepalive_timeout_ms: 2147483647
  keepalive_permit_without_calls: true
  http2_min_recv_ping_interval_without_data_ms: 3
  http2_max_ping_strikes: 4
  max_connection_age_ms: 5
  max_connection_age_grace_ms: 6
metrics: {address: 0.0.0.0, port: 0}
admin: {token_file: /run/token, allow_from_loopback: true}
trace: {file: /var/t.json, level: TIMESTAMPS, rate: 4294967295, count: 0, log_frequency: 7}
allow_client_shm: true
model_name: mine
model_control_mode: explicit
load_models: [a, b]
repository_poll_secs: 86400
alerts:
  alertmanager_url: http://[::1]:9093
  webhook_url: https://hooks.example
  timeout_ms: 250
  resend_ms: 100
exit_timeout_ms: 0
provider_libraries: {openvino: /lib/ov.so, FaultyExecutionProvider: "/lib/with space.so"}
providers: [faulty, openvino, cpu]
max_queue_size: 1000000
worker_restart_backoff_ms: 30000
worker_crash_loop_deaths: 2
worker_crash_loop_pause_ms: 5000
log_level: debug
log_format: json
)";

TEST(ServerConfig, ReadsEveryKey) {
  const ScratchFile file(kFull, "server.yaml");
  ServerConfig expected;
  expected.model_repositories = {"/a", "b c"};
  expected.http = {true, "::1", 0, 1ull << 40, 4096, 7, 1ms, 2ms, 3ms};
  expected.grpc = {true, "::", 9000, 2147483647, 1ms, 2147483647ms, true, 3ms, 4, 5ms, 6ms};
  expected.admin = {"/run/token", true};
  expected.trace = {"/var/t.json", TraceLevel::kTimestamps, 4294967295, 0, 7};
  expected.allow_client_shm = true;
  expected.model_name = "mine";
  expected.model_control_mode = ModelControl::kExplicit;
  expected.load_models = {"a", "b"};
  expected.repository_poll_secs = 86400;
  expected.alerts = {"http://[::1]:9093", "https://hooks.example", 250ms, 100ms};
  expected.metrics = {true, "0.0.0.0", 0};
  expected.exit_timeout = 0ms;
  expected.provider_libraries = {{"FaultyExecutionProvider", "/lib/with space.so"},
                                 {"OpenVINOExecutionProvider", "/lib/ov.so"}};
  expected.providers = {
      {"FaultyExecutionProvider", "OpenVINOExecutionProvider", "CPUExecutionProvider"}};
  expected.max_queue_size = 1'000'000;
  expected.worker_restart_backoff = 30'000ms;
  expected.worker_crash_loop_deaths = 2;
  expected.worker_crash_loop_pause = 5s;
  expected.log_level = log::Severity::kDebug;
  expected.log_format = log::Format::kJson;
  EXPECT_EQ(loaded_server(file.path()), expected);
}

TEST(ServerConfig, PrintedLoadsToTheSameValues) {
  const ScratchFile file(kFull, "server.yaml");
  for (const ServerConfig& config :
       {loaded_server(file.path()), loaded_server(std::nullopt, std::nullopt, {kRepository})}) {
    const ScratchFile again(printed(config), "again.yaml");
    EXPECT_EQ(loaded_server(again.path()), config) << printed(config);
  }
}

TEST(ServerConfig, FlagsWinOverTheFile) {
  const ScratchFile file(kFull, "server.yaml");
  ServerConfig expected = loaded_server(file.path());
  expected.model_repositories = {"/x", "/y"};
  expected.http.port = 8123;
  expected.log_level = log::Severity::kError;
  expected.providers = {{"FaultyExecutionProvider"}};
  EXPECT_EQ(loaded_server(file.path(), std::nullopt,
                          {{"--model-repository", "model_repositories", {"/x", "/y"}},
                           {"--http-port", "http.port", {"8123"}},
                           {"--log-level", "log_level", {"error"}},
                           {"--providers", "providers", {"Faulty"}}}),
            expected);
}

TEST(ServerConfig, APrintedUrlKeepsItsSecrets) {
  ServerConfig config;
  config.alerts.webhook_url = "https://user:word@hooks.example:9000/services/T0K3N?key=1";
  EXPECT_THAT(printed(config), AllOf(HasSubstr("https://***@hooks.example:9000/***"),
                                     Not(HasSubstr("word")), Not(HasSubstr("T0K3N"))));
}

TEST(ServerConfig, ProvidersComeFromFlagThenFileThenEnvironment) {
  const ScratchFile silent("log_level: info\n", "server.yaml");
  const ScratchFile says("providers: webgpu, cpu\n", "server.yaml");
  const ScratchFile says_default("providers: []\n", "server.yaml");
  const FlagValue flag{"--providers", "providers", {"cuda"}};
  const FlagValue empty_flag{"--providers", "providers", {""}};
  using Names = std::vector<std::string>;
  EXPECT_EQ(loaded_server(silent.path(), "cpu", {kRepository}).providers,
            Names{"CPUExecutionProvider"});
  EXPECT_EQ(loaded_server(silent.path(), " ", {kRepository}).providers, std::nullopt);
  EXPECT_EQ(loaded_server(says.path(), "cpu", {kRepository}).providers,
            (Names{"WebGpuExecutionProvider", "CPUExecutionProvider"}));
  EXPECT_EQ(loaded_server(says_default.path(), "cpu", {kRepository}).providers, std::nullopt);
  EXPECT_EQ(loaded_server(says.path(), "cpu", {kRepository, flag}).providers,
            Names{"CUDAExecutionProvider"});
  EXPECT_EQ(loaded_server(says.path(), "cpu", {kRepository, empty_flag}).providers, std::nullopt);
}

TEST(ServerConfig, FaultsNameFlagVariableOrFile) {
  const ScratchFile file("http: {port: 65536, prot: 1}\nlog_level: loud\n", "server.yaml");
  const auto config = load_server_config(
      file.path(), "cpu;cdua",
      {{"--http-port", "http.port", {"-1"}}, {"--log-format", "log_format", {"xml"}}});
  ASSERT_FALSE(config);
  const std::string path = file.path().string();
  EXPECT_THAT(config.error(),
              ElementsAre(path + ": http.prot: unknown key; did you mean port?",
                          path + ": http.port = 65536: must be in [0, 65535]",
                          path + ": log_level = loud: must be debug, info, warning or error",
                          "--http-port = -1: must be in [0, 65535]",
                          "--log-format = xml: must be text or json",
                          StartsWith("ORT_PROVIDERS: unknown provider \"cdua\"; known: ")));
}

TEST(ServerConfig, RefusesWhatTheTableDoesNotAllow) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"http: {address: \"\"}", {"http.address = \"\": must be an address to listen on"}},
      {"http: {address: a b}", {"http.address = \"a b\": must be an address to listen on"}},
      {"http: {max_input_size: 0}", {"http.max_input_size = 0: must be in [1, 1099511627776]"}},
      {"grpc: {max_input_size: 2147483648}",
       {"grpc.max_input_size = 2147483648: must be in [1, 2147483647]"}},
      {"grpc: {keepalive_time_ms: 0, keepalive_timeout_ms: 0, keepalive_permit_without_calls: 1}",
       {"grpc.keepalive_time_ms = 0: must be in [1, 2147483647]",
        "grpc.keepalive_timeout_ms = 0: must be in [1, 2147483647]",
        "grpc.keepalive_permit_without_calls = 1: must be true or false"}},
      {"grpc: {http2_min_recv_ping_interval_without_data_ms: -1, http2_max_ping_strikes: -1,"
       " max_connection_age_ms: 2147483648, max_connection_age_grace_ms: soon}",
       {"grpc.http2_min_recv_ping_interval_without_data_ms = -1: must be in [0, 2147483647]",
        "grpc.http2_max_ping_strikes = -1: must be in [0, 2147483647]",
        "grpc.max_connection_age_ms = 2147483648: must be in [0, 2147483647]",
        "grpc.max_connection_age_grace_ms = soon: must be an integer in [0, 2147483647]"}},
      {"http: {max_header_size: 255}", {"http.max_header_size = 255: must be in [256, 1048576]"}},
      {"http: {body_timeout_ms: 0}", {"http.body_timeout_ms = 0: must be in [1, 3600000]"}},
      {"alerts: {alertmanager_url: \"host:9093\"}",
       {"alerts.alertmanager_url = \"host:9093\": must be an http:// or https:// URL"}},
      {"alerts: {webhook_url: ftp://host/}",
       {"alerts.webhook_url = ftp://host/: must be an http:// or https:// URL"}},
      {"alerts: {webhook_url: http://:80/}",
       {"alerts.webhook_url = http://:80/: must be an http:// or https:// URL"}},
      {"alerts: {webhook_url: http://host:65536}",
       {"alerts.webhook_url = http://host:65536: must be an http:// or https:// URL"}},
      {"alerts: {webhook_url: http://host/a b}",
       {"alerts.webhook_url = \"http://host/a b\": must be an http:// or https:// URL"}},
      {"alerts: {timeout_ms: 0}", {"alerts.timeout_ms = 0: must be in [1, 60000]"}},
      {"max_queue_size: 0", {"max_queue_size = 0: must be in [1, 1000000]"}},
      {"exit_timeout_ms: -1", {"exit_timeout_ms = -1: must be in [0, 3600000]"}},
      {"model_repositories: [\"\"]", {"model_repositories[0] = \"\": must be a folder's path"}},
      {"load_models: [a, \"*\"]",
       {"load_models = [a, \"*\"]: * is all models and must stand alone"}},
      {"model_repositories: {a: b}", {"model_repositories = {...}: must be a folder's path"}},
      {"provider_libraries: {x: lib.so}",
       {"provider_libraries.x = lib.so: must be an absolute path"}},
      {"provider_libraries: {\"a b\": /lib.so}",
       {"provider_libraries.\"a b\": must be a name of at most 64 letters, digits and _-."}},
      {"provider_libraries: {dml: /a, DirectML: /b}",
       {"provider_libraries.DirectML: DmlExecutionProvider is named twice"}},
      {"provider_libraries: /lib.so",
       {"provider_libraries = /lib.so: must be a map of provider names to paths"}},
      {"providers: {cuda: 1}", {"providers = {...}: must be a list of providers"}},
      {"providers: [[cuda]]", {"providers[0] = [cuda]: must be a provider's name"}},
  };
  for (const auto& [text, faults] : cases) {
    const ScratchFile file(text, "server.yaml");
    Faults expected;
    for (const std::string& fault : faults) {
      expected.push_back(file.path().string() + ": " + fault);
    }
    const auto config = load_server_config(file.path(), std::nullopt, {kRepository});
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error(), expected) << text;
  }
}

TEST(ServerConfig, AWrongLibraryPathDoesNotMakeItsProviderUnknown) {
  const ScratchFile file("provider_libraries: {faulty: x.so}\nproviders: [faulty]\n",
                         "server.yaml");
  EXPECT_THAT(load_server_config(file.path(), std::nullopt, {kRepository}).error(),
              ElementsAre(HasSubstr("must be an absolute path")));
}

TEST(ServerConfig, NeedsAFileThatExistsAndARepository) {
  EXPECT_THAT(load_server_config("/no/such/file.yaml", "nonsense", {}).error(),
              ElementsAre("/no/such/file.yaml: cannot be read: No such file or directory"));
  EXPECT_THAT(load_server_config(std::nullopt, std::nullopt, {}).error(),
              ElementsAre(HasSubstr("no model repository: give --model-repository DIR")));
}

TEST(ServerConfig, AFlagGivenTwiceIsRefused) {
  EXPECT_THAT(load_server_config(std::nullopt, std::nullopt,
                                 {kRepository, {"--http-port", "http.port", {"1", "2"}}})
                  .error(),
              ElementsAre("--http-port = [1, 2]: must be an integer in [0, 65535]"));
}

TEST(Environment, GivesOrtProviders) {
  ASSERT_EQ(setenv("ORT_PROVIDERS", "CPU", 1), 0);
  EXPECT_EQ(ort_providers_from_environment(), "CPU");
  ASSERT_EQ(unsetenv("ORT_PROVIDERS"), 0);
  EXPECT_EQ(ort_providers_from_environment(), std::nullopt);
}

}  // namespace
}  // namespace gradus::config
