#include "simulate/timeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "simulate/faults.h"

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

constexpr double kLeft = 90;
constexpr double kWidth = 1000;  // of the strips
constexpr double kTop = 50;
constexpr double kGap = 34;
constexpr double kHeight = 110;     // of a strip
constexpr std::size_t kMost = 500;  // columns
constexpr std::array<std::string_view, ladder::kMaxLevels> kColours = {
    "#2b8a3e", "#74b816", "#f2b705", "#e8590c", "#9c36b5", "#5f3dc4", "#1971c2", "#868e96"};

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

double seconds(Duration time) { return to_ms(time) / 1000; }

/// Some seconds as one, so that a day fits into the width.
struct Column {
  double requests = 0, missed = 0, refused = 0, failed = 0, quality = 0;
  std::array<double, ladder::kMaxLevels> in_time{};
};

class Picture {
 public:
  Picture(const Scenario& scenario, const Outcome& outcome, Duration relapse_within)
      : scenario_(scenario), outcome_(outcome), relapse_within_(relapse_within) {
    const auto all = static_cast<std::size_t>(std::ceil(seconds(scenario.lasts)));
    step_ = std::max<std::size_t>(1, (all + kMost - 1) / kMost);
    columns_.resize(std::max<std::size_t>(1, (all + step_ - 1) / step_));
    for (std::size_t i = 0; i < outcome.seconds.size(); ++i) {
      const Second& second = outcome.seconds[i];
      Column& column = columns_[std::min(i / step_, columns_.size() - 1)];
      column.requests += second.requests;
      column.missed += second.missed;
      column.refused += second.refused;
      column.failed += second.failed;
      for (std::size_t level = 0; level < scenario.levels.size(); ++level) {
        column.in_time[level] += second.in_time[level];
        column.quality += second.in_time[level] * scenario.levels[level].quality;
      }
    }
  }

  std::string draw() {
    const double height = kTop + 4 * (kHeight + kGap) + 30;
    svg_ = text(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"0 0 %.0f %.0f\" shape-rendering=\"crispEdges\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        kLeft + kWidth + 30, height, kLeft + kWidth + 30, height);
    label(kLeft, 20, heading(), "start", 15);
    faults();
    levels();
    load();
    lost_requests();
    accuracy();
    time_axis(kTop + 4 * (kHeight + kGap) - kGap + 16);
    return svg_ + "</svg>\n";
  }

 private:
  std::string heading() const {
    return text(
        "%s: %.3f %% of %llu requests in time, effective accuracy %.4f, %zu moves, %llu flaps",
        scenario_.name.c_str(), 100 * outcome_.share(Ending::kInTime),
        static_cast<unsigned long long>(outcome_.requests), outcome_.effective_accuracy(),
        outcome_.moves.size(),
        static_cast<unsigned long long>(flaps(outcome_, relapse_within_).size()));
  }

  double x_of(Duration at) const {
    return kLeft + kWidth * std::min(1.0, seconds(at) / seconds(scenario_.lasts));
  }
  double x_of(std::size_t column) const { return x_of(std::chrono::seconds(column * step_)); }
  static double top_of(std::size_t strip) {
    return kTop + static_cast<double>(strip) * (kHeight + kGap);
  }

  void rect(double x, double y, double width, double height, std::string_view fill,
            double opacity = 1) {
    if (width <= 0 || height <= 0) return;
    svg_ += text("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%.*s\"", x, y,
                 width, height, static_cast<int>(fill.size()), fill.data());
    svg_ += opacity < 1 ? text(" fill-opacity=\"%.2f\"/>\n", opacity) : "/>\n";
  }
  void label(double x, double y, const std::string& words, const char* anchor, int size = 12) {
    std::string safe;  // names are plain words, but a file's need not be
    for (const char c : words) safe += c == '<' || c == '&' || c == '>' ? '_' : c;
    svg_ += text("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor,
                 size) +
            safe + "</text>\n";
  }
  void frame(std::size_t strip, const std::string& title, const std::string& most) {
    svg_ += text(
        "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"none\" "
        "stroke=\"#adb5bd\"/>\n",
        kLeft, top_of(strip), kWidth, kHeight);
    label(kLeft, top_of(strip) - 6, title, "start");
    label(kLeft - 6, top_of(strip) + 10, most, "end");
  }
  /// A line through the columns, from the bottom of the strip up. @param value 0..1
  template <class Value>
  void line(std::size_t strip, const char* colour, Value value) {
    std::string points;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::optional<double> share = value(columns_[i]);
      if (!share) continue;
      const double y = top_of(strip) + kHeight * (1 - std::clamp(*share, 0.0, 1.0));
      points += text("%.2f,%.2f %.2f,%.2f ", x_of(i), y, x_of(i + 1), y);
    }
    svg_ += text("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", colour) +
            points + "\"/>\n";
  }

  void faults() {
    for (std::size_t level = 0; level < scenario_.levels.size(); ++level) {
      const Faults its(scenario_, level);
      const auto amiss = [&](Duration at) {
        const Health health = its.at(at);
        return health.lost || health.hangs || health.alternating || health.errors > 0 ||
               health.factor != 1;
      };
      std::size_t bands = 0;
      for (Duration at{}; at < scenario_.lasts && bands < kMost;) {
        const Duration next = std::min(scenario_.lasts, its.next_change(at));
        if (amiss(at)) {
          rect(x_of(at), kTop, x_of(next) - x_of(at), 4 * (kHeight + kGap) - kGap, "#fa5252", 0.12);
          ++bands;
        }
        at = next;
      }
    }
  }

  /// Who answered, as shares from the bottom up; above them a line that steps with the ladder.
  void levels() {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      double y = top_of(0) + kHeight;
      for (std::size_t level = 0; level < scenario_.levels.size(); ++level) {
        const Column& column = columns_[i];
        const double height =
            column.requests > 0 ? kHeight * column.in_time[level] / column.requests : 0;
        y -= height;
        rect(x_of(i), y, x_of(i + 1) - x_of(i), height, kColours[level], 0.45);
      }
    }
    const double row = kHeight / static_cast<double>(scenario_.levels.size());
    const auto y_of = [&](const std::optional<int>& level) {
      return top_of(0) + (level ? (*level + 0.5) * row : kHeight);
    };
    std::optional<int> level = 0;
    if (!outcome_.moves.empty()) level = outcome_.moves.front().transition.from;
    std::string points = text("%.2f,%.2f ", kLeft, y_of(level));
    for (const Move& move : outcome_.moves) {
      points += text("%.2f,%.2f ", x_of(move.at), y_of(level));
      level = move.transition.to;
      points += text("%.2f,%.2f ", x_of(move.at), y_of(level));
    }
    points += text("%.2f,%.2f", kLeft + kWidth, y_of(level));
    svg_ += "<polyline fill=\"none\" stroke=\"#212529\" stroke-width=\"2\" points=\"" + points +
            "\"/>\n";
    for (const Duration at : flaps(outcome_, relapse_within_)) {
      svg_ +=
          text("<circle cx=\"%.2f\" cy=\"%.0f\" r=\"4\" fill=\"#c92a2a\"/>\n", x_of(at), top_of(0));
    }
    frame(0,
          "current level (line), flaps (red dots), and share of requests answered in time by each "
          "level",
          "");
    for (std::size_t i = 0; i < scenario_.levels.size(); ++i) {
      const double y = y_of(static_cast<int>(i));
      rect(kLeft - 14, y - 5, 8, 10, kColours[i], 0.7);
      label(kLeft - 18, y + 4, scenario_.levels[i].name, "end", 11);
    }
  }

  void load() {
    double most = 1e-9;
    for (const Column& column : columns_) most = std::max(most, column.requests);
    const auto in_time = [](const Column& column) {
      double sum = 0;
      for (const double level : column.in_time) sum += level;
      return sum;
    };
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const double height = kHeight * in_time(columns_[i]) / most;
      rect(x_of(i), top_of(1) + kHeight - height, x_of(i + 1) - x_of(i), height, "#4dabf7", 0.6);
    }
    line(1, "#343a40", [&](const Column& column) { return std::optional(column.requests / most); });
    frame(1, "requests (line) and answers in time (area), a second",
          text("%.4g", most / static_cast<double>(step_)));
  }

  void lost_requests() {
    double most = 1;
    for (const Column& column : columns_) {
      most = std::max(most, column.missed + column.refused + column.failed);
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      double y = top_of(2) + kHeight;
      const Column& column = columns_[i];
      for (const auto& [count, colour] : {std::pair(column.missed, "#e8590c"),
                                          {column.refused, "#9c36b5"},
                                          {column.failed, "#c92a2a"}}) {
        y -= kHeight * count / most;
        rect(x_of(i), y, std::max(1.0, x_of(i + 1) - x_of(i)), kHeight * count / most, colour);
      }
    }
    frame(2, "deadline missed (orange), refused at once (violet), failed (red), a second",
          text("%.4g", most / static_cast<double>(step_)));
  }

  void accuracy() {
    line(3, "#1971c2", [](const Column& column) {
      return column.requests > 0 ? std::optional(column.quality / column.requests) : std::nullopt;
    });
    frame(3, "effective accuracy: in time, weighted by the quality of the level", "1");
    label(kLeft - 6, top_of(3) + kHeight, "0", "end");
  }

  void time_axis(double y) {
    const double all = seconds(scenario_.lasts);
    double step = std::pow(10, std::floor(std::log10(all / 4)));
    while (all / step > 12) step *= all / step > 25 ? 5 : 2;
    for (double at = 0; at <= all * 1.0001; at += step) {
      label(kLeft + kWidth * at / all, y, text("%g s", at), "middle", 11);
    }
  }

  const Scenario& scenario_;
  const Outcome& outcome_;
  const Duration relapse_within_;
  std::size_t step_ = 1;  // seconds a column
  std::vector<Column> columns_;
  std::string svg_;
};

}  // namespace

std::string timeline(const Scenario& scenario, const Outcome& outcome, Duration relapse_within) {
  return Picture(scenario, outcome, relapse_within).draw();
}

}  // namespace gradus::simulate
