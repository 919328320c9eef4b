#include "api/control/trace_settings.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace gradus::api {
namespace {

using config::TraceLevel;
using Texts = std::vector<std::string>;

tl::unexpected<Error> expected(const std::string& name, const Texts& texts, const char* what) {
  std::string came;
  for (const std::string& text : texts) {
    came += (came.empty() ? "'" : ", '") + text.substr(0, 80) + "'";
  }
  return fail(Code::kInvalid, "trace setting '" + name + "' is " +
                                  (came.empty() ? "an empty list" : came) + "; expected " + what);
}

template <class Number>
std::optional<Number> number(const Texts& texts, std::int64_t least) {
  if (texts.size() != 1) return std::nullopt;
  const std::string& text = texts.front();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits =
      value >= least && (sizeof(Number) > 4 || value <= std::numeric_limits<std::uint32_t>::max());
  if (error != std::errc() || end != text.data() + text.size() || !fits) return std::nullopt;
  return static_cast<Number>(value);
}

// OFF beside another level switches nothing off, as in Triton.
Result<TraceLevel> level(const std::string& name, const Texts& texts) {
  TraceLevel found = TraceLevel::kOff;
  for (const std::string& text : texts) {
    if (text == "TENSORS") {
      return fail(Code::kInvalid,
                  "trace level TENSORS is not supported: what clients send is not written to "
                  "files; expected OFF or TIMESTAMPS");
    }
    if (text != "OFF" && text != "TIMESTAMPS") return expected(name, texts, "OFF or TIMESTAMPS");
    if (text == "TIMESTAMPS") found = TraceLevel::kTimestamps;
  }
  if (texts.empty()) return expected(name, texts, "OFF or TIMESTAMPS");
  return found;
}

}  // namespace

Result<void> change(const TraceValues& values, OwnTraceSettings& own) {
  OwnTraceSettings to = own;
  for (const auto& [name, texts] : values) {
    if (name == "trace_file") {
      to.file.reset();
      if (!texts) continue;
      if (texts->size() != 1) return expected(name, *texts, "one name");
      to.file = texts->front();
    } else if (name == "trace_level") {
      to.level.reset();
      if (!texts) continue;
      auto said = level(name, *texts);
      if (!said) return tl::unexpected(std::move(said.error()));
      to.level = *said;
    } else if (name == "trace_rate") {
      to.rate.reset();
      if (texts && !(to.rate = number<std::uint32_t>(*texts, 1))) {
        return expected(name, *texts, "an integer in [1, 4294967295]");
      }
    } else if (name == "trace_count") {
      to.count.reset();
      if (texts && !(to.count = number<std::int64_t>(*texts, -1))) {
        return expected(name, *texts, "-1, which is no bound, or an integer from 0");
      }
    } else if (name == "log_frequency") {
      to.log_frequency.reset();
      if (texts && !(to.log_frequency = number<std::uint32_t>(*texts, 0))) {
        return expected(name, *texts, "an integer in [0, 4294967295]");
      }
    } else {
      return fail(Code::kInvalid,
                  "there is no trace setting '" + name.substr(0, 80) +
                      "'; expected trace_file, trace_level, trace_rate, trace_count or "
                      "log_frequency");
    }
  }
  own = std::move(to);
  return {};
}

TraceSettings settled(const TraceSettings& below, const OwnTraceSettings& own) {
  return {.file = below.file,
          .level = own.level.value_or(below.level),
          .rate = own.rate.value_or(below.rate),
          .count = own.count.value_or(below.count),
          .log_frequency = own.log_frequency.value_or(below.log_frequency)};
}

std::vector<std::pair<std::string, Texts>> shown(const TraceSettings& settings) {
  const bool on = settings.level == TraceLevel::kTimestamps;
  return {{"trace_file", {settings.file}},
          {"trace_level", {on ? "TIMESTAMPS" : "OFF"}},
          {"trace_rate", {std::to_string(settings.rate)}},
          {"trace_count", {std::to_string(settings.count)}},
          {"log_frequency", {std::to_string(settings.log_frequency)}}};
}

}  // namespace gradus::api
