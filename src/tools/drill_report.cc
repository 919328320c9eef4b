#include "tools/drill_report.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/json_text.h"

namespace gradus::tools {
namespace {

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string shown_ms(const std::optional<Duration>& time) {
  return time ? fixed(to_ms(*time), 1) : "-";
}

std::string shown_s(const std::optional<Duration>& time) {
  return time ? fixed(to_ms(*time) / 1000, 2) : "-";
}

std::string json_or_null(const std::optional<Duration>& time, double unit_ms, int digits) {
  return time ? fixed(to_ms(*time) / unit_ms, digits) : "null";
}

std::optional<Duration> first_answer(const Trial& trial, TimePoint end,
                                     std::span<const SentRequest> requests) {
  std::optional<TimePoint> first;
  for (const SentRequest& request : requests) {
    if (request.status != 200 || request.level <= 0) continue;
    if (*request.answered < trial.struck || *request.answered >= end) continue;
    if (!first || *request.answered < *first) first = request.answered;
  }
  return first ? std::optional(*first - trial.struck) : std::nullopt;
}

std::string levels_text(const std::map<int, std::size_t>& levels) {
  std::string text;
  for (const auto& [level, count] : levels) {
    text += (text.empty() ? "" : " ") + std::to_string(level) + ":" + std::to_string(count);
  }
  return text;
}

void add_text(std::string& list, const std::string& word) {
  if (word.empty() || list.find(word) != std::string::npos) return;
  list += (list.empty() ? "" : ",") + word;
}

std::string within_text(const FaultReport& report, std::size_t within) {
  return report.bound ? std::to_string(within) + "/" + std::to_string(report.trials) : "-";
}

std::string bound_json(const FaultReport& report) {
  if (!report.bound) return "null";
  return "{\"p50\": " + fixed(to_ms(report.bound->half), 3) +
         ", \"max\": " + fixed(to_ms(report.bound->all), 3) +
         ", \"trials_within_p50\": " + std::to_string(report.within_half) +
         ", \"trials_within_max\": " + std::to_string(report.within_all) + "}";
}

std::string levels_json(const std::map<int, std::size_t>& levels) {
  std::string json = "{";
  for (const auto& [level, count] : levels) {
    json +=
        (json.size() == 1 ? "\"" : ", \"") + std::to_string(level) + "\": " + std::to_string(count);
  }
  return json + "}";
}

std::string fault_json(const FaultReport& report) {
  return "{\"fault\": " + json_string(report.fault) +
         ", \"trials\": " + std::to_string(report.trials) +
         ", \"sent\": " + std::to_string(report.sent) +
         ", \"failed\": " + std::to_string(report.failed) +
         ", \"wrong\": " + std::to_string(report.wrong) +
         ", \"first_answer_ms\": {\"p50\": " + json_or_null(report.first_answer_p50, 1, 3) +
         ", \"max\": " + json_or_null(report.first_answer_max, 1, 3) +
         "}, \"bound_ms\": " + bound_json(report) +
         ", \"longest_answer_ms\": " + fixed(to_ms(report.longest_answer), 3) +
         ", \"transitions_down\": " + std::to_string(report.transitions_down) +
         ", \"back_at_level0_s\": " + json_or_null(report.back_at_level0, 1000, 3) +
         ", \"class\": " + (report.fault_class.empty() ? "null" : json_string(report.fault_class)) +
         ", \"answered_by_level\": " + levels_json(report.answered_by_level) + "}";
}

}  // namespace

bool FaultReport::good() const {
  return failed == 0 && wrong == 0 && sent > 0 && complaints.empty() && back_at_level0.has_value();
}

bool DrillReport::good() const { return std::ranges::all_of(faults, &FaultReport::good); }

FaultReport summarize(std::string fault, std::span<const Trial> trials,
                      std::span<const SentRequest> requests, std::optional<Bound> bound) {
  FaultReport report;
  report.fault = std::move(fault);
  report.trials = trials.size();
  report.sent = requests.size();
  report.bound = bound;
  for (const SentRequest& request : requests) {
    if (request.status != 200) {
      if (report.failed == 0)
        report.complaints.push_back("the first failure: " + failure_text(request));
      ++report.failed;
      continue;
    }
    if (!request.right) ++report.wrong;
    ++report.answered_by_level[request.level];
    report.longest_answer = std::max(report.longest_answer, *request.answered - request.due);
  }
  std::vector<Duration> firsts;
  bool always_back = !trials.empty();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const TimePoint end = i + 1 < trials.size() ? trials[i + 1].struck : TimePoint::max();
    if (const auto first = first_answer(trial, end, requests)) {
      firsts.push_back(*first);
      if (bound && *first <= bound->half) ++report.within_half;
      if (bound && *first <= bound->all) ++report.within_all;
    }
    std::ranges::copy(trial.faults, std::back_inserter(report.complaints));
    add_text(report.fault_class, trial.fault_class);
    report.transitions_down += trial.downs;
    if (trial.back) {
      report.back_at_level0 = std::max(report.back_at_level0.value_or(*trial.back), *trial.back);
    } else {
      always_back = false;
    }
  }
  if (!always_back) report.back_at_level0.reset();
  if (!firsts.empty()) {
    std::ranges::sort(firsts);
    report.first_answer_p50 = firsts[(firsts.size() - 1) / 2];
    report.first_answer_max = firsts.back();
  }
  return report;
}

std::string report_table(const DrillReport& report) {
  char line[256];
  const auto row = [&line](const auto&... cells) {
    std::snprintf(line, sizeof line,
                  "%-10s %6s %7s %6s %6s %9s %9s %7s %7s %9s %5s %7s  %-13s  %s\n", cells...);
    return std::string(line);
  };
  std::string text = row("", "", "", "", "", "first", "answer", "trials", "within", "longest", "",
                         "back at", "", "");
  text += row("fault", "trials", "sent", "failed", "wrong", "p50 ms", "max ms", "p50 *", "max *",
              "ms", "downs", "0, s", "class", "answers by level");
  for (const FaultReport& fault : report.faults) {
    text +=
        row(fault.fault.c_str(), std::to_string(fault.trials).c_str(),
            std::to_string(fault.sent).c_str(), std::to_string(fault.failed).c_str(),
            std::to_string(fault.wrong).c_str(), shown_ms(fault.first_answer_p50).c_str(),
            shown_ms(fault.first_answer_max).c_str(), within_text(fault, fault.within_half).c_str(),
            within_text(fault, fault.within_all).c_str(), shown_ms(fault.longest_answer).c_str(),
            std::to_string(fault.transitions_down).c_str(), shown_s(fault.back_at_level0).c_str(),
            fault.fault_class.empty() ? "-" : fault.fault_class.c_str(),
            levels_text(fault.answered_by_level).c_str());
    for (const std::string& complaint : fault.complaints) text += "  " + complaint + "\n";
  }
  text +=
      "* the first answer is to come within 50 ms (p50) and 250 ms (max) and one run of the CPU "
      "level, " +
      fixed(to_ms(report.cpu_run), 1) + " ms; after a hang, beyond the run's limit\n";
  text += "A timer of 1 ms fired late by " + fixed(to_ms(report.timer.p50), 2) + " ms (p50), " +
          fixed(to_ms(report.timer.p99), 2) + " ms (p99), " + fixed(to_ms(report.timer.max), 2) +
          " ms (max) meanwhile; " + fixed(report.rate, 1) + " requests a second\n";
  return text;
}

std::string report_json(const DrillReport& report) {
  std::string json = "{\"faults\": [";
  for (const FaultReport& fault : report.faults) {
    json += (&fault == report.faults.data() ? "\n  " : ",\n  ") + fault_json(fault);
  }
  return json + "\n], \"rate\": " + fixed(report.rate, 3) +
         ", \"cpu_run_ms\": " + fixed(to_ms(report.cpu_run), 3) +
         ", \"timer_delay_ms\": {\"p50\": " + fixed(to_ms(report.timer.p50), 3) +
         ", \"p99\": " + fixed(to_ms(report.timer.p99), 3) +
         ", \"max\": " + fixed(to_ms(report.timer.max), 3) + "}}\n";
}

}  // namespace gradus::tools
