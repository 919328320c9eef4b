// The process's log: lines of text or JSON on standard error. spdlog stays in the .cc file.
// Never called per request.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace gradus::log {

enum class Severity { kDebug, kInfo, kWarning, kError };
enum class Format { kText, kJson };

/// One `key=value` of a line, a member of its own in JSON.
struct Field {
  std::string_view key;
  std::string value;
};

/// Call once, before other threads log; without it: text, info and above.
void configure(Severity least, Format format);
/// From now on each line of this process ends with `key=value`. As configure().
void tag(std::string_view key, std::string value);
/// Which severities are logged, each by itself. Any thread, at any time.
struct Severities {
  bool debug = false, info = true, warning = true, error = true;
  bool operator==(const Severities&) const = default;
};
Severities severities();
void set_severities(Severities on);

bool enabled(Severity severity);

/// Any thread. `message` is one line; line breaks in it are escaped.
void write(Severity severity, std::string_view message, std::initializer_list<Field> fields = {});

inline void debug(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Severity::kDebug, m, f);
}
inline void info(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Severity::kInfo, m, f);
}
inline void warning(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Severity::kWarning, m, f);
}
inline void error(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Severity::kError, m, f);
}

/// `debug`, `info`, `warning`, `error`; nothing for other names.
std::optional<Severity> parse_severity(std::string_view name);
/// `text`, `json`.
std::optional<Format> parse_format(std::string_view name);

}  // namespace gradus::log
