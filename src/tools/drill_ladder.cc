#include "tools/drill_ladder.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
namespace dom = simdjson::dom;

constexpr Duration kStatusLimit = 10s;

std::optional<std::int64_t> number(const dom::element& object, const char* key) {
  std::int64_t value = 0;
  if (object[key].get(value) != simdjson::SUCCESS) return {};
  return value;
}

std::string text(const dom::element& object, const char* key) {
  std::string_view value;
  if (object[key].get(value) != simdjson::SUCCESS) return {};
  return std::string(value);
}

// Of `2026-11-29T15:04:05.123456Z`; 0 for anything else.
std::chrono::microseconds wall_time(const std::string& shown) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hours = 0;
  int minutes = 0;
  int seconds = 0;
  int micros = 0;
  if (std::sscanf(shown.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%6dZ", &year, &month, &day, &hours,
                  &minutes, &seconds, &micros) != 7) {
    return {};
  }
  const std::chrono::sys_days date{std::chrono::year(year) / static_cast<int>(month) /
                                   static_cast<int>(day)};
  return date.time_since_epoch() + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds) + std::chrono::microseconds(micros);
}

void read_level_0(const dom::element& level, LadderView& view) {
  view.reason = text(level, "reason");
  view.provider = text(level, "provider_used");
  double target_ms = 0;
  if (level["target_p99_ms"].get(target_ms) == simdjson::SUCCESS) {
    view.target = std::chrono::milliseconds(static_cast<std::int64_t>(target_ms));
  }
  dom::element worker;
  if (level["worker"].get(worker) != simdjson::SUCCESS || !worker.is_object()) return;
  if (const auto pid = number(worker, "pid")) view.worker = static_cast<pid_t>(*pid);
  view.worker_state = text(worker, "state");
  view.last_fault = text(worker, "last_fault");
  view.fault_class = text(worker, "class");
  view.level_0_whole = text(level, "state") == "ready" && text(level, "breaker") == "closed" &&
                       view.worker_state == "running";
}

std::optional<int> level_number(const dom::element& object, const char* key) {
  const auto value = number(object, key);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

Result<LadderView> parse_ladder(const std::string& json) {
  dom::parser parser;
  dom::element root;
  dom::array levels;
  dom::array transitions;
  if (parser.parse(json).get(root) != simdjson::SUCCESS ||
      root["levels"].get(levels) != simdjson::SUCCESS ||
      root["transitions"].get(transitions) != simdjson::SUCCESS) {
    return fail(Code::kInternal, "no status of a ladder: " + json.substr(0, 200));
  }
  LadderView view;
  view.current = level_number(root, "current_level");
  for (const dom::element level : levels) {
    const std::string state = text(level, "state");
    const auto which = level_number(level, "level");
    if (state == "loading") view.loading = true;
    if (state == "ready" && which) view.ready.push_back(*which);
    if (which == 0) read_level_0(level, view);
  }
  for (const dom::element move : transitions) {
    view.moves.push_back({wall_time(text(move, "time")), level_number(move, "from"),
                          level_number(move, "to"), text(move, "cause")});
  }
  return view;
}

Result<LadderView> fetch_ladder(std::uint16_t port, const std::string& model) {
  const auto answer = exchange(port, http_request("GET", "/v2/models/" + model + "/ladder", "", ""),
                               steady_clock().now() + kStatusLimit);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status == 404) return fail(Code::kInvalid, answer->body);
  if (answer->status != 200) return fail(Code::kUnavailable, answer->body);
  return parse_ladder(answer->body);
}

std::vector<LadderMove> moves_since(const LadderView& before, const LadderView& now) {
  const auto last = before.moves.empty() ? std::chrono::microseconds(-1) : before.moves.back().at;
  std::vector<LadderMove> fresh;
  std::ranges::copy_if(now.moves, std::back_inserter(fresh),
                       [last](const LadderMove& move) { return move.at > last; });
  return fresh;
}

}  // namespace gradus::tools
