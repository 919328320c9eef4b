#include "simulate/outcome.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

Second& second_of(std::vector<Second>& seconds, Duration at) {
  const auto index = static_cast<std::size_t>(at / 1s);
  if (index >= seconds.size()) seconds.resize(index + 1);
  return seconds[index];
}

bool normal(const Second& second) { return second.in_time[0] >= 0.9 * second.requests; }

}  // namespace

std::uint32_t Second::all_in_time() const {
  return std::accumulate(in_time.begin(), in_time.end(), 0U);
}

void Latencies::add(Duration latency) {
  const double us = std::max(1.0, to_ms(latency) * 1000);
  const auto step = static_cast<std::size_t>(std::log2(us) * kStepsAnOctave);
  ++counts_[std::min(step, kSteps - 1)];
  ++all_;
}

Duration Latencies::percentile(double share) const {
  const double rank = share * static_cast<double>(all_);
  double below = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    below += static_cast<double>(counts_[step]);
    if (below < rank || counts_[step] == 0) continue;
    const double us = std::exp2((static_cast<double>(step) + 0.5) / kStepsAnOctave);
    return Duration(std::llround(us * 1000));
  }
  return {};
}

double Outcome::share(Ending ending) const {
  return requests > 0 ? static_cast<double>(count(ending)) / static_cast<double>(requests) : 0;
}

double Outcome::goodput() const {
  return static_cast<double>(count(Ending::kInTime)) / (to_ms(lasts) / 1000);
}

double Outcome::effective_accuracy() const {
  return requests > 0 ? quality / static_cast<double>(requests) : 0;
}

void Outcome::end(Duration arrival, Duration deadline, Duration at, Ending ending,
                  std::size_t level, double level_quality) {
  ++requests;
  ++endings[static_cast<std::size_t>(ending)];
  if (at > deadline) ++ended_late;
  latencies.add((ending == Ending::kInTime ? at : deadline) - arrival);
  Second& second = second_of(seconds, arrival);
  ++second.requests;
  switch (ending) {
    case Ending::kInTime:
      ++second.in_time[level];
      ++answered_by[level];
      quality += level_quality;
      return;
    case Ending::kMissed:
      ++second.missed;
      return;
    case Ending::kRefused:
      ++second.refused;
      return;
    case Ending::kFailed:
      ++second.failed;
      return;
  }
  std::abort();
}

std::vector<Duration> flaps(const Outcome& outcome, Duration relapse_within) {
  std::map<int, Duration> climbed_at;
  std::vector<Duration> times;
  for (const Move& move : outcome.moves) {
    const ladder::Transition& made = move.transition;
    const bool climb =
        made.cause == ladder::Cause::kPromoted || made.cause == ladder::Cause::kArrived;
    if (climb) {
      climbed_at[*made.to] = move.at;
    } else if (made.from) {
      const auto climbed = climbed_at.find(*made.from);
      if (climbed != climbed_at.end() && move.at - climbed->second < relapse_within) {
        times.push_back(move.at);
      }
      climbed_at.erase(*made.from);
    }
  }
  return times;
}

std::uint64_t bad_seconds(const Outcome& outcome) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      outcome.seconds,
      [](const Second& second) { return second.all_in_time() < 0.99 * second.requests; }));
}

std::optional<Duration> recovery(const Outcome& outcome, Duration last_disturbance) {
  constexpr std::size_t kOnEnd = 5;
  const auto first = static_cast<std::size_t>(last_disturbance / 1s);
  std::size_t in_row = 0;
  for (std::size_t i = first; i < outcome.seconds.size(); ++i) {
    in_row = normal(outcome.seconds[i]) ? in_row + 1 : 0;
    if (in_row < kOnEnd) continue;
    const Duration since = std::chrono::seconds(i + 1 - kOnEnd);
    return std::max(Duration::zero(), since - last_disturbance);
  }
  return std::nullopt;
}

}  // namespace gradus::simulate
