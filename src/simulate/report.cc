#include "simulate/report.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/json_text.h"

namespace gradus::simulate {
namespace {

constexpr std::size_t kMovesShown = 40;

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

double seconds(Duration time) { return to_ms(time) / 1000; }

std::string level_text(const std::optional<int>& level) {
  return level ? std::to_string(*level) : "none";
}

std::string percent(const Outcome& outcome, Ending ending) {
  return text("%.3f", 100 * outcome.share(ending));
}

/// Of requests in time, by the level that answered, in percent.
std::string levels_text(const Outcome& outcome, std::size_t levels) {
  std::string shown;
  for (std::size_t i = 0; i < levels; ++i) {
    const double in_time =
        static_cast<double>(std::max<std::uint64_t>(1, outcome.count(Ending::kInTime)));
    shown += text("%s%zu:%.1f", i == 0 ? "" : " ", i,
                  100 * static_cast<double>(outcome.answered_by[i]) / in_time);
  }
  return shown;
}

std::string row(const Scenario& scenario, const config::PolicyConfig& policy,
                const Result& result) {
  const Outcome& outcome = result.outcome;
  const auto back = recovery(outcome, last_disturbance(scenario));
  const bool moves = result.rule.ladder;
  return text("%-11s %9s %8s %8s %8s %9.2f %8.4f %8.1f %8.1f %6llu %7s %6s %6s  %s\n",
              std::string(result.rule.name).c_str(), percent(outcome, Ending::kInTime).c_str(),
              percent(outcome, Ending::kMissed).c_str(), percent(outcome, Ending::kRefused).c_str(),
              percent(outcome, Ending::kFailed).c_str(), outcome.goodput(),
              outcome.effective_accuracy(), to_ms(outcome.latencies.percentile(0.5)),
              to_ms(outcome.latencies.percentile(0.99)),
              static_cast<unsigned long long>(bad_seconds(outcome)),
              back ? text("%.0f", seconds(*back)).c_str() : "never",
              moves ? std::to_string(outcome.moves.size()).c_str() : "-",
              moves ? std::to_string(flaps(outcome, policy.relapse_within).size()).c_str() : "-",
              levels_text(outcome, scenario.levels.size()).c_str());
}

std::string moves_text(const Outcome& outcome) {
  std::string shown = outcome.moves.empty() ? "the ladder never moved\n"
                                            : "\n     at s  from  to    cause        because\n";
  for (std::size_t i = 0; i < std::min(kMovesShown, outcome.moves.size()); ++i) {
    const Move& move = outcome.moves[i];
    shown += text("%9.3f  %-4s  %-4s  %-11s  %s\n", seconds(move.at),
                  level_text(move.transition.from).c_str(), level_text(move.transition.to).c_str(),
                  ladder::to_string(move.transition.cause), move.transition.evidence.c_str());
  }
  if (outcome.moves.size() > kMovesShown) {
    shown += text("          and %zu more\n", outcome.moves.size() - kMovesShown);
  }
  return shown;
}

class JsonObject {
 public:
  void add(std::string_view key, std::string value) {
    text_ += (text_.size() == 1 ? "" : ", ") + json_string(key) + ": " + std::move(value);
  }
  void add(std::string_view key, std::uint64_t value) { add(key, std::to_string(value)); }
  void add(std::string_view key, double value) {
    std::string number;
    append_json_number(number, value);
    add(key, std::move(number));
  }
  std::string done() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

std::string moves_json(const Outcome& outcome) {
  const auto number = [](const std::optional<int>& level) {
    return level ? std::to_string(*level) : std::string("null");
  };
  std::string list = "[";
  for (const Move& move : outcome.moves) {
    JsonObject one;
    one.add("at_s", seconds(move.at));
    one.add("from", number(move.transition.from));
    one.add("to", number(move.transition.to));
    one.add("cause", json_string(ladder::to_string(move.transition.cause)));
    one.add("evidence", json_string(move.transition.evidence));
    list += (list.size() == 1 ? "\n  " : ",\n  ") + one.done();
  }
  return list + "]";
}

std::string result_json(const Scenario& scenario, const config::PolicyConfig& policy,
                        const Result& result) {
  const Outcome& outcome = result.outcome;
  const auto back = recovery(outcome, last_disturbance(scenario));
  JsonObject levels;
  for (std::size_t i = 0; i < scenario.levels.size(); ++i) {
    levels.add(std::to_string(i), outcome.answered_by[i]);
  }
  JsonObject object;
  object.add("scenario", json_string(scenario.name));
  object.add("seed", scenario.seed);
  object.add("rule", json_string(result.rule.name));
  object.add("duration_s", seconds(scenario.lasts));
  object.add("requests", outcome.requests);
  object.add("in_time", outcome.count(Ending::kInTime));
  object.add("missed", outcome.count(Ending::kMissed));
  object.add("refused", outcome.count(Ending::kRefused));
  object.add("failed", outcome.count(Ending::kFailed));
  object.add("goodput", outcome.goodput());
  object.add("effective_accuracy", outcome.effective_accuracy());
  object.add("p50_ms", to_ms(outcome.latencies.percentile(0.5)));
  object.add("p99_ms", to_ms(outcome.latencies.percentile(0.99)));
  object.add("bad_seconds", bad_seconds(outcome));
  if (back) {
    object.add("recovery_s", seconds(*back));
  } else {
    object.add("recovery_s", std::string("null"));
  }
  object.add("transitions", std::uint64_t{outcome.moves.size()});
  object.add("flaps", std::uint64_t{flaps(outcome, policy.relapse_within).size()});
  object.add("executions", outcome.executions);
  object.add("hedges", outcome.hedges);
  object.add("hedges_won", outcome.hedges_won);
  object.add("in_time_by_level", levels.done());
  object.add("moves", moves_json(outcome));
  return object.done();
}

}  // namespace

std::string table(const Scenario& scenario, const config::PolicyConfig& policy,
                  std::span<const Result> results) {
  std::string shown = text(
      "%s: %.0f s, %llu requests, deadline %.0f ms, seed %llu\n\n", scenario.name.c_str(),
      seconds(scenario.lasts), static_cast<unsigned long long>(results.front().outcome.requests),
      to_ms(scenario.deadline), static_cast<unsigned long long>(scenario.seed));
  shown += text("%-11s %9s %8s %8s %8s %9s %8s %8s %8s %6s %7s %6s %6s  %s\n", "rule", "in time",
                "missed", "refused", "failed", "goodput", "accu-", "p50", "p99", "bad", "back",
                "moves", "flaps", "answered by");
  shown += text("%-11s %9s %8s %8s %8s %9s %8s %8s %8s %6s %7s %6s %6s  %s\n", "", "%", "%", "%",
                "%", "1/s", "racy", "ms", "ms", "s", "s", "", "", "level, %");
  for (const Result& result : results) shown += row(scenario, policy, result);
  if (results.size() == 1 && results.front().rule.ladder) {
    shown += moves_text(results.front().outcome);
  }
  return shown;
}

std::string json(const Scenario& scenario, const config::PolicyConfig& policy,
                 std::span<const Result> results) {
  if (results.size() == 1) return result_json(scenario, policy, results.front()) + "\n";
  std::string rules = "[";
  for (const Result& result : results) {
    rules += (rules.size() == 1 ? "\n" : ",\n") + result_json(scenario, policy, result);
  }
  JsonObject object;
  object.add("scenario", json_string(scenario.name));
  object.add("rules", rules + "]");
  return object.done() + "\n";
}

}  // namespace gradus::simulate
