// What Triton's extension_trace.md calls trace settings: pure values, of the server and of each
// model, which has its own or the server's. On the wire every value is text, and null takes a
// setting back.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/server_config.h"

namespace gradus::api {

using TraceSettings = config::TraceConfig;

/// Setting -> its texts; nothing: it is taken back.
using TraceValues = std::map<std::string, std::optional<std::vector<std::string>>>;

/// What is set at one place; the rest comes from below: of a model from the server's, of the server
/// from its configuration.
struct OwnTraceSettings {
  std::optional<std::string> file;  // as it was given
  std::optional<config::TraceLevel> level;
  std::optional<std::uint32_t> rate;
  std::optional<std::int64_t> count;
  std::optional<std::uint32_t> log_frequency;

  bool any() const { return file || level || rate || count || log_frequency; }
};

/// @param own is changed only if all values can be
/// @return kInvalid: which cannot, and what was expected
Result<void> change(const TraceValues& values, OwnTraceSettings& own);

/// `own` over `below`; the file apart, which is the writer's business.
TraceSettings settled(const TraceSettings& below, const OwnTraceSettings& own);

/// As they are answered: `trace_level` -> {"TIMESTAMPS"}, `trace_rate` -> {"1000"}.
std::vector<std::pair<std::string, std::vector<std::string>>> shown(const TraceSettings& settings);

}  // namespace gradus::api
