#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/json_text.h"

namespace gradus::log {
namespace {

constexpr unsigned bit(Severity severity) { return 1u << static_cast<unsigned>(severity); }

// From that severity on, up to the last.
constexpr unsigned bits_from(Severity least) { return (bit(Severity::kError) << 1) - bit(least); }

std::atomic<unsigned> g_enabled{bits_from(Severity::kInfo)};  // a bit for each severity
std::atomic<Format> g_format{Format::kText};
std::string g_tag_key;  // set before other threads log
std::string g_tag_value;

spdlog::logger& sink() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("gradus",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "debug";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "?";
}

std::string json_line(Severity severity, std::string_view message,
                      std::initializer_list<Field> fields) {
  std::string line = "{\"time\":" + json_string(iso8601(wall_now())) + ",\"severity\":\"" +
                     name_of(severity) + "\",\"message\":";
  append_json_string(line, message);
  const auto append = [&](std::string_view key, std::string_view value) {
    line += ',';
    append_json_string(line, key);
    line += ':';
    append_json_string(line, value);
  };
  for (const Field& field : fields) append(field.key, field.value);
  if (!g_tag_key.empty()) append(g_tag_key, g_tag_value);
  line += '}';
  return line;
}

void append_one_line(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
}

std::string text_line(Severity severity, std::string_view message,
                      std::initializer_list<Field> fields) {
  std::string line = iso8601(wall_now()) + " " + name_of(severity) + " ";
  append_one_line(line, message);
  const auto append = [&](std::string_view key, const std::string& value) {
    line += ' ';
    line += key;
    line += '=';
    append_one_line(line, value.find(' ') == std::string::npos ? value : json_string(value));
  };
  for (const Field& field : fields) append(field.key, field.value);
  if (!g_tag_key.empty()) append(g_tag_key, g_tag_value);
  return line;
}

}  // namespace

void configure(Severity least, Format format) {
  g_enabled = bits_from(least);
  g_format = format;
}

void tag(std::string_view key, std::string value) {
  g_tag_key = key;
  g_tag_value = std::move(value);
}

Severities severities() {
  return {.debug = enabled(Severity::kDebug),
          .info = enabled(Severity::kInfo),
          .warning = enabled(Severity::kWarning),
          .error = enabled(Severity::kError)};
}

void set_severities(Severities on) {
  g_enabled = (on.debug ? bit(Severity::kDebug) : 0) | (on.info ? bit(Severity::kInfo) : 0) |
              (on.warning ? bit(Severity::kWarning) : 0) | (on.error ? bit(Severity::kError) : 0);
}

bool enabled(Severity severity) {
  return (g_enabled.load(std::memory_order_relaxed) & bit(severity)) != 0;
}

void write(Severity severity, std::string_view message, std::initializer_list<Field> fields) {
  if (!enabled(severity)) return;
  const std::string line = g_format == Format::kJson ? json_line(severity, message, fields)
                                                     : text_line(severity, message, fields);
  sink().log(spdlog::level::info, "{}", line);
}

std::optional<Severity> parse_severity(std::string_view name) {
  for (const Severity s :
       {Severity::kDebug, Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (name == name_of(s)) return s;
  }
  return std::nullopt;
}

std::optional<Format> parse_format(std::string_view name) {
  if (name == "text") return Format::kText;
  if (name == "json") return Format::kJson;
  return std::nullopt;
}

}  // namespace gradus::log
