#include <algorithm>

#include "config/http_url.h"
#include "config/tables.h"

namespace gradus::config {
namespace {

using A = AlertsConfig;
using H = HttpConfig;
using M = MetricsConfig;
using S = ServerConfig;

constexpr std::int64_t kHour = 3'600'000;  // ms
constexpr const char* kClosed = "false: nothing listens";

bool is_address(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// One text, or a list of them.
void read_texts(const Value& value, Reader& reader, std::string_view must,
                std::vector<std::string>& out) {
  std::vector<std::string> read;
  const auto append = [&](const Value& item) {
    if (item.kind == Value::Kind::kScalar && !item.text.empty()) {
      read.push_back(item.text);
    } else {
      reader.refuse(item, must);
    }
  };
  if (value.kind == Value::Kind::kList) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const Reader::Step step(reader, index_segment(i));
      append(value.items[i]);
    }
  } else {
    append(value);
  }
  out = std::move(read);
}

// Not shown whole: it may hold secrets.
Field<A> url(std::string key, std::string A::*member, std::string help) {
  Field<A> field = text(std::move(key), member, is_http_url, kHttpUrl, std::move(help));
  field.show = [member](const A& in) {
    return (in.*member).empty() ? Value{} : Value::string(masked_url(in.*member));
  };
  field.default_text = "none";
  return field;
}

Value show_texts(const std::vector<std::string>& texts) {
  Value list = Value::list();
  for (const std::string& text : texts) list.items.push_back(Value::string(text));
  return list;
}

}  // namespace

const Fields<H>& http_fields() {
  static const Fields<H> fields = {
      boolean("enabled", &H::enabled, kClosed),
      text("address", &H::address, is_address, "an address to listen on",
           "0.0.0.0 or :: for every interface"),
      integer("port", &H::port, 0, 65535, "0: any free port; the log says which"),
      integer("max_input_size", &H::max_input_size, 1, std::int64_t{1} << 40,
              "bytes of one body, compressed or not"),
      integer("max_header_size", &H::max_header_size, 256, 1 << 20,
              "bytes of one request's header"),
      integer("max_json_depth", &H::max_json_depth, 1, 1000, "nesting of a JSON body"),
      milliseconds("header_timeout_ms", &H::header_timeout, 1, kHour, "to send a whole header"),
      milliseconds("body_timeout_ms", &H::body_timeout, 1, kHour, "to send a whole body"),
      milliseconds("idle_timeout_ms", &H::idle_timeout, 1, kHour,
                   "between requests of one connection"),
  };
  return fields;
}

const Fields<GrpcConfig>& grpc_fields() {
  using G = GrpcConfig;
  constexpr std::int64_t kMost = 2'147'483'647;  // of gRPC's integers
  static const Fields<G> fields = {
      boolean("enabled", &G::enabled, kClosed),
      text("address", &G::address, is_address, "an address to listen on",
           "0.0.0.0 or :: for every interface"),
      integer("port", &G::port, 0, 65535, "0: any free port; the log says which"),
      integer("max_input_size", &G::max_input_size, 1, kMost, "bytes of one message"),
      milliseconds("keepalive_time_ms", &G::keepalive_time, 1, kMost,
                   "a client that says nothing for so long is sent a ping"),
      milliseconds("keepalive_timeout_ms", &G::keepalive_timeout, 1, kMost,
                   "to answer that ping; then the connection is closed"),
      boolean("keepalive_permit_without_calls", &G::keepalive_permit_without_calls,
              "pings may be sent, by either side, while no call is under way"),
      milliseconds("http2_min_recv_ping_interval_without_data_ms",
                   &G::http2_min_recv_ping_interval_without_data, 0, kMost,
                   "least time between a client's pings without data"),
      integer("http2_max_ping_strikes", &G::http2_max_ping_strikes, 0, kMost,
              "pings that come sooner than they may; one more and the connection is closed; 0: no "
              "bound"),
      milliseconds("max_connection_age_ms", &G::max_connection_age, 0, kMost,
                   "then a connection takes no more calls; clients open another; 0: no bound"),
      milliseconds("max_connection_age_grace_ms", &G::max_connection_age_grace, 0, kMost,
                   "for its calls under way, which are cancelled then; 0: no bound"),
  };
  return fields;
}

const Fields<A>& alerts_fields() {
  static const Fields<A> fields = {
      url("alertmanager_url", &A::alertmanager_url,
          "Alertmanager, without /api/v2/alerts: `http://host:9093`"),
      url("webhook_url", &A::webhook_url, "gets each event as one JSON object (docs/alerts.md)"),
      milliseconds("timeout_ms", &A::timeout, 1, 60'000, "for one try, connecting included"),
      milliseconds("resend_ms", &A::resend, 100, kHour,
                   "Alertmanager is told again of what still fires; it forgets what it has not "
                   "heard of for four times as long"),
  };
  return fields;
}

const Fields<AdminConfig>& admin_fields() {
  static const Fields<AdminConfig> fields = {
      {"token_file", "a file's path",
       "whoever has the token in this file may change ladders, the log and traces "
       "([operator.md](operator.md)); no other user may read it",
       [](const Value& value, Reader& reader, AdminConfig& out) {
         if (read_text(value, "a file's path", reader, out.token_file) && out.token_file.empty()) {
           reader.refuse(value, "must be a file's path");
         }
       },
       [](const AdminConfig& in) {
         return in.token_file.empty() ? Value{} : Value::string(in.token_file);
       },
       "none"},
      boolean("allow_from_loopback", &AdminConfig::allow_from_loopback,
              "so may whoever calls from 127.0.0.0/8 or ::1"),
  };
  return fields;
}

const Fields<TraceConfig>& trace_fields() {
  using T = TraceConfig;
  static const Fields<T> fields = {
      {"file", "a file's path",
       "made anew when the server starts; clients that may change the server's state can have "
       "others made beside it",
       [](const Value& value, Reader& reader, T& out) {
         if (read_text(value, "a file's path", reader, out.file) && out.file.empty()) {
           reader.refuse(value, "must be a file's path");
         }
       },
       [](const T& in) { return in.file.empty() ? Value{} : Value::string(in.file); }, "none"},
      choice<T, TraceLevel>("level", &T::level,
                            {{"OFF", TraceLevel::kOff}, {"TIMESTAMPS", TraceLevel::kTimestamps}},
                            "what is written of a request"),
      integer("rate", &T::rate, 1, 4'294'967'295, "one of so many requests is traced"),
      integer("count", &T::count, -1, 1'000'000'000'000, "so many, then no more; -1: no bound"),
      integer("log_frequency", &T::log_frequency, 0, 4'294'967'295,
              "so many traces a file, FILE.0, FILE.1 and so on; 0: all in FILE"),
  };
  return fields;
}

const Fields<M>& metrics_fields() {
  static const Fields<M> fields = {
      boolean("enabled", &M::enabled, kClosed),
      text("address", &M::address, is_address, "an address to listen on",
           "0.0.0.0 or :: for every interface"),
      integer("port", &M::port, 0, 65535, "0: any free port; the log says which"),
  };
  return fields;
}

const Fields<S>& server_fields() {
  // `provider_libraries` stands before `providers`, which may use its names.
  static const Fields<S> fields = {
      {"model_repositories", "a list of folders",
       "folders of models; relative paths start at the working directory. A folder that holds a "
       "model's files or versions is one model itself",
       [](const Value& value, Reader& reader, S& out) {
         read_texts(value, reader, "must be a folder's path", out.model_repositories);
       },
       [](const S& in) { return show_texts(in.model_repositories); }, "required, here or by flag"},
      {"model_name", "a name", "of a repository that is one model itself",
       [](const Value& value, Reader& reader, S& out) {
         if (read_text(value, "must be a name", reader, out.model_name) && out.model_name.empty()) {
           reader.refuse(value, "must be a name");
         }
       },
       [](const S& in) { return in.model_name.empty() ? Value{} : Value::string(in.model_name); },
       "MODEL_NAME, else the folder's name"},
      choice<S, ModelControl>(
          "model_control_mode", &S::model_control_mode,
          {{"none", ModelControl::kNone},
           {"poll", ModelControl::kPoll},
           {"explicit", ModelControl::kExplicit}},
          "`none`: all models are loaded at the start; `poll`: and what changes "
          "in the repositories is loaded, or unloaded; `explicit`: clients load "
          "and unload models"),
      {"load_models", "a list of names", "loaded at the start in explicit mode; `*`, alone: all",
       [](const Value& value, Reader& reader, S& out) {
         read_texts(value, reader, "must be a model's name", out.load_models);
         const auto is_all = [](const std::string& name) { return name == "*"; };
         if (std::ranges::any_of(out.load_models, is_all) &&
             !std::ranges::all_of(out.load_models, is_all)) {
           reader.refuse(value, "* is all models and must stand alone");
         }
       },
       [](const S& in) { return in.load_models.empty() ? Value{} : show_texts(in.load_models); },
       "none"},
      integer("repository_poll_secs", &S::repository_poll_secs, 1, 86'400,
              "between two looks for changes in poll mode; what changed is loaded once it has come "
              "to rest"),
      group("http", &S::http, http_fields(), "the HTTP listener"),
      group("grpc", &S::grpc, grpc_fields(), "the gRPC listener"),
      group("metrics", &S::metrics, metrics_fields(), "where `GET /metrics` is answered"),
      group("alerts", &S::alerts, alerts_fields(), "who is told of events"),
      group("admin", &S::admin, admin_fields(), "who may change the server's state"),
      group("trace", &S::trace, trace_fields(), "traces of single requests"),
      boolean("allow_client_shm", &S::allow_client_shm,
              "clients may register shared memory of this machine, by name, and have tensors read "
              "from and written to it"),
      milliseconds("exit_timeout_ms", &S::exit_timeout, 0, kHour,
                   "grace time of a drain after a signal to end"),
      {"provider_libraries", "a map of provider names to absolute paths",
       "plugin providers; their names are known wherever a provider is named",
       [](const Value& value, Reader& reader, S& out) {
         read_provider_libraries(value, reader, out.provider_libraries);
       },
       [](const S& in) {
         if (in.provider_libraries.empty()) return Value{};
         Value map = Value::map();
         for (const auto& [name, path] : in.provider_libraries) map.add(name, Value::string(path));
         return map;
       },
       "none"},
      {"providers", "a list of providers", "orders and limits the providers of every level",
       [](const Value& value, Reader& reader, S& out) {
         read_provider_list(value, reader, out.providers);
       },
       [](const S& in) { return in.providers ? show_texts(*in.providers) : Value{}; },
       "ORT_PROVIDERS, else as said above"},
      integer("max_queue_size", &S::max_queue_size, 1, 1'000'000,
              "requests waiting for one level; more are refused (429)"),
      integer("max_queue_bytes", &S::max_queue_bytes, 1, std::int64_t{1} << 50,
              "bytes of inputs waiting for one level"),
      milliseconds("worker_restart_backoff_ms", &S::worker_restart_backoff, 1, 30'000,
                   "from a worker's loss to its restart; doubled after each loss in a row, up to "
                   "30 s"),
      integer("worker_crash_loop_deaths", &S::worker_crash_loop_deaths, 2, 1'000'000,
              "so many losses of a worker within a minute are a crash loop"),
      milliseconds("worker_crash_loop_pause_ms", &S::worker_crash_loop_pause, 1, 3'600'000,
                   "least wait before a restart in a crash loop"),
      choice<S, log::Severity>("log_level", &S::log_level,
                               {{"debug", log::Severity::kDebug},
                                {"info", log::Severity::kInfo},
                                {"warning", log::Severity::kWarning},
                                {"error", log::Severity::kError}},
                               "least severity that is logged"),
      choice<S, log::Format>("log_format", &S::log_format,
                             {{"text", log::Format::kText}, {"json", log::Format::kJson}},
                             "form of a log line"),
  };
  return fields;
}

}  // namespace gradus::config
