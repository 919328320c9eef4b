#include "tools/drill_report.h"

#include <algorithm>
#include <cstdio>

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

}  // namespace

bool FaultReport::good() const {
  return failed == 0 && wrong == 0 && sent > 0 && complaints.empty() && back_at_level0.has_value();
}

FaultReport summarize(std::string fault, std::span<const Trial> trials,
                      std::span<const SentRequest> requests, std::size_t transitions_down) {
  FaultReport report;
  report.fault = std::move(fault);
  report.trials = trials.size();
  report.sent = requests.size();
  report.transitions_down = transitions_down;
  for (const SentRequest& request : requests) {
    if (request.status != 200) {
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
    const TimePoint end = i + 1 < trials.size() ? trials[i + 1].struck : TimePoint::max();
    if (const auto first = first_answer(trials[i], end, requests)) firsts.push_back(*first);
    if (!trials[i].complaint.empty()) report.complaints.push_back(trials[i].complaint);
    if (trials[i].back) {
      report.back_at_level0 =
          std::max(report.back_at_level0.value_or(*trials[i].back), *trials[i].back);
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

std::string report_table(std::span<const FaultReport> reports) {
  char line[256];
  const auto row = [&line](const auto&... cells) {
    std::snprintf(line, sizeof line, "%-10s %6s %7s %6s %6s %9s %9s %9s %5s %7s  %s\n", cells...);
    return std::string(line);
  };
  std::string text = row("", "", "", "", "", "first", "answer", "longest", "", "back at", "");
  text += row("fault", "trials", "sent", "failed", "wrong", "p50 ms", "max ms", "ms", "downs",
              "0, s", "answers by level");
  for (const FaultReport& report : reports) {
    text +=
        row(report.fault.c_str(), std::to_string(report.trials).c_str(),
            std::to_string(report.sent).c_str(), std::to_string(report.failed).c_str(),
            std::to_string(report.wrong).c_str(), shown_ms(report.first_answer_p50).c_str(),
            shown_ms(report.first_answer_max).c_str(), shown_ms(report.longest_answer).c_str(),
            std::to_string(report.transitions_down).c_str(), shown_s(report.back_at_level0).c_str(),
            levels_text(report.answered_by_level).c_str());
    for (const std::string& complaint : report.complaints) text += "  " + complaint + "\n";
  }
  return text;
}

std::string report_json(std::span<const FaultReport> reports) {
  std::string json = "{\"faults\": [";
  for (const FaultReport& report : reports) {
    if (&report != reports.data()) json += ", ";
    json += "\n  {\"fault\": " + json_string(report.fault) +
            ", \"trials\": " + std::to_string(report.trials) +
            ", \"sent\": " + std::to_string(report.sent) +
            ", \"failed\": " + std::to_string(report.failed) +
            ", \"wrong\": " + std::to_string(report.wrong) +
            ", \"first_answer_ms\": {\"p50\": " + json_or_null(report.first_answer_p50, 1, 3) +
            ", \"max\": " + json_or_null(report.first_answer_max, 1, 3) +
            "}, \"longest_answer_ms\": " + fixed(to_ms(report.longest_answer), 3) +
            ", \"transitions_down\": " + std::to_string(report.transitions_down) +
            ", \"back_at_level0_s\": " + json_or_null(report.back_at_level0, 1000, 3) +
            ", \"answered_by_level\": {";
    bool first = true;
    for (const auto& [level, count] : report.answered_by_level) {
      json += (first ? "\"" : ", \"") + std::to_string(level) + "\": " + std::to_string(count);
      first = false;
    }
    json += "}}";
  }
  return json + "\n]}\n";
}

}  // namespace gradus::tools
