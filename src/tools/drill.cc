#include "tools/drill.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_count.h"
#include "tools/drill_faults.h"
#include "tools/drill_load.h"
#include "tools/drill_own.h"
#include "tools/drill_report.h"
#include "tools/drill_running.h"
#include "tools/drill_sample.h"
#include "tools/drill_timer.h"
#include "tools/drill_trial.h"
#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr double kShareOfCapacity = 0.25;
constexpr Duration kMeasureFor = 1s;
constexpr int kMeasurements = 3;
constexpr Duration kAnswerLimit = 60s;
constexpr Duration kQuiet = 300ms;    // of good load before a fault, and after it; longer where …
constexpr double kQuietRequests = 2;  // … requests are so rare that fewer would come
constexpr Duration kQuietMost = 3s;
constexpr int kMeasuredRuns = 1000;  // of a level alone, or as many as kMeasureFor has room for
constexpr Duration kHalfWithin = 50ms;
constexpr Duration kAllWithin = 250ms;
constexpr Duration kLeastMaxRun = 1s;  // of a run's limit, which is at least 10 targets too

class Drill {
 public:
  Drill(const DrillOptions& options, Venue& venue, std::ostream& err)
      : options_(options), venue_(venue), err_(err) {}

  /// What to send and how often, once before all faults.
  Result<void> prepare();
  Result<void> run(const DrillFault& fault);
  DrillReport report();

 private:
  Result<std::vector<Duration>> timed_runs(int level) const;
  Result<void> choose_rate();
  milliseconds target_for(const DrillFault& fault, const LadderView& ladder) const;
  Duration quiet() const;
  std::optional<Bound> bound_of(const DrillFault& fault, milliseconds target) const;

  const DrillOptions& options_;
  Venue& venue_;
  std::ostream& err_;
  std::optional<Sample> sample_;
  int cpu_level_ = 1;
  milliseconds own_target_{};        // of level 0, as its model says
  milliseconds quick_target_{};      // twice the slowest warm run of level 0
  std::optional<TimePoint> struck_;  // the latest fault, of the server that runs
  DrillReport report_;
  std::vector<Duration> late_;  // timers
};

Result<void> Drill::prepare() {
  const auto ladder = venue_.open({}, false);
  if (!ladder) return tl::unexpected(ladder.error());
  const auto below = std::ranges::find_if(ladder->ready, [](int level) { return level > 0; });
  if (below == ladder->ready.end()) {
    return fail(Code::kInvalid, "no level below level 0 is ready: nothing could take its place");
  }
  cpu_level_ = *below;
  own_target_ = ladder->target;
  auto sample = Sample::take(venue_.port(), options_.model, ladder->ready, cpu_level_,
                             venue_.same_hardware() ? kSameHardware : kOtherHardware);
  if (!sample) return tl::unexpected(sample.error());
  sample_ = std::move(*sample);
  const auto best = timed_runs(0);
  if (!best) return tl::unexpected(best.error());
  quick_target_ = std::chrono::ceil<milliseconds>(2 * best->back());
  const auto cpu = timed_runs(cpu_level_);
  if (!cpu) return tl::unexpected(cpu.error());
  report_.cpu_run = (*cpu)[cpu->size() / 2];
  return choose_rate();
}

// One after another, quickest first.
Result<std::vector<Duration>> Drill::timed_runs(int level) const {
  const LoadPlan plan = sample_->plan(venue_.port(), level);
  std::vector<Duration> times;
  const TimePoint enough = steady_clock().now() + kMeasureFor;
  while (times.empty() || (times.size() < kMeasuredRuns && steady_clock().now() < enough)) {
    const TimePoint begun = steady_clock().now();
    const auto answer = exchange(venue_.port(), plan.request, begun + kAnswerLimit);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status != 200) return fail(Code::kUnavailable, answer->body);
    times.push_back(steady_clock().now() - begun);
  }
  std::ranges::sort(times);
  return times;
}

Result<void> Drill::choose_rate() {
  report_.rate = options_.rate;
  if (report_.rate > 0) return {};
  const auto capacity = [this](int level) -> Result<double> {
    const LoadPlan plan = sample_->plan(venue_.port(), level);
    double best = 0;  // of some: a busy machine only lowers it
    for (int i = 0; i < kMeasurements; ++i) {
      const auto rate = closed_loop_rate(plan, usable_cpus(), kMeasureFor / kMeasurements);
      if (!rate) {
        return fail(rate.error().code, "level " + std::to_string(level) +
                                           " fails without a fault: " + rate.error().message);
      }
      best = std::max(best, *rate);
    }
    return best;
  };
  const auto cpu = capacity(cpu_level_);
  if (!cpu) return tl::unexpected(cpu.error());
  err_ << "the CPU level takes " << std::lround(*cpu) << " requests a second\n";
  double least = *cpu;
  if (!venue_.same_hardware()) {  // an emulated GPU may be far slower than the CPU
    const auto best = capacity(0);
    if (!best) return tl::unexpected(best.error());
    least = std::min(least, *best);
  }
  report_.rate = least * kShareOfCapacity;
  return {};
}

// A GPU's target may be too much for level 0 on this CPU, which the load shares: it would never
// climb back.
milliseconds Drill::target_for(const DrillFault& fault, const LadderView& ladder) const {
  if (!venue_.is_ours()) return ladder.target;
  return fault.slow ? quick_target_ : std::max(own_target_, 2 * quick_target_);
}

Duration Drill::quiet() const {
  const double rare = kQuietRequests / report_.rate;  // s
  if (rare >= to_ms(kQuietMost) / 1000) return kQuietMost;
  return std::max(kQuiet, Duration(std::llround(1e9 * rare)));
}

std::optional<Bound> Drill::bound_of(const DrillFault& fault, milliseconds target) const {
  if (fault.promise == Promise::kNone) return std::nullopt;
  const Duration max_run = std::max<Duration>(kLeastMaxRun, 10 * target);
  const Duration run =
      report_.cpu_run + (fault.promise == Promise::kMaxRun ? max_run : Duration::zero());
  return Bound{.half = kHalfWithin + run, .all = kAllWithin + run};
}

Result<void> Drill::run(const DrillFault& fault) {
  if (venue_.is_ours()) struck_.reset();  // a fresh server has no cooldown
  const auto seen = venue_.open(target_for(fault, {}), fault.taken == Taken::kRestarts);
  if (!seen) return tl::unexpected(seen.error());
  const milliseconds target = target_for(fault, *seen);
  err_ << fault.name << ": " << fault.meaning << "; " << options_.trials << " times at "
       << static_cast<double>(std::lround(report_.rate * 10)) / 10 << " requests a second"
       << std::endl;
  const Stage stage{venue_, options_.model, target, report_.rate, options_.trials};
  const LoadPlan plan = sample_->plan(venue_.port());
  OpenLoad load(plan, report_.rate);
  TimerWatch timers;
  LadderView last = *seen;
  std::vector<Trial> trials;
  for (int i = 0; i < options_.trials; ++i) {
    std::this_thread::sleep_for(quiet());
    if (struck_ && fault.signal == 0) {  // in a cooldown only a loss moves the ladder down
      std::this_thread::sleep_until(*struck_ + venue_.policy().cooldown);
    }
    trials.push_back(run_trial(fault, stage, last));
    struck_ = trials.back().struck;
    if (!trials.back().back) break;  // there is nothing left to break
  }
  std::this_thread::sleep_for(quiet());
  std::ranges::copy(timers.stop(), std::back_inserter(late_));
  const std::vector<SentRequest> requests = load.stop();
  report_.faults.push_back(
      summarize(std::string(fault.name), trials, requests, bound_of(fault, target)));
  return {};
}

DrillReport Drill::report() {
  report_.timer = delay_of(late_);
  return std::move(report_);
}

// What only one of the two kinds of drill has.
Result<void> check_flags(const DrillOptions& options) {
  const bool own = !options.model_repository.empty();
  if (own != options.url.empty()) {
    return fail(Code::kInvalid, "either --model-repository or --url is needed");
  }
  if (own && (!options.control.empty() || options.yes)) {
    return fail(Code::kInvalid, "--control and --yes go with --url");
  }
  if (!own && (options.restart_backoff || options.provider != DrillOptions{}.provider)) {
    return fail(Code::kInvalid,
                "--provider and --restart-backoff do not go with --url: a running server has its "
                "own");
  }
  if (!own && !options.yes && !options.terminal) {
    return fail(Code::kInvalid, "--url: there is no terminal to ask on; --yes means it");
  }
  return {};
}

Result<std::unique_ptr<Venue>> find_venue(const DrillOptions& options) {
  if (const auto checked = check_flags(options); !checked) return tl::unexpected(checked.error());
  return options.url.empty() ? own_venue(options) : running_venue(options);
}

int exit_code(Code code) { return code == Code::kInvalid ? 2 : 1; }

bool write_json(const DrillOptions& options, const DrillReport& report) {
  if (options.json.empty()) return true;
  std::ofstream file(options.json);
  file << report_json(report);
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

int drill(const DrillOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto complain = [&err](const Error& error) {
    err << error.message << std::endl;
    return exit_code(error.code);
  };
  const auto venue = find_venue(options);
  if (!venue) return complain(venue.error());
  const auto faults = parse_drill_faults(options.faults, (*venue)->reach());
  if (!faults) return complain(faults.error());
  if (!options.url.empty() && !options.yes) {
    const auto ladder = (*venue)->open({}, false);
    if (!ladder) return complain(ladder.error());
    if (!agreed(options, *ladder, *faults, in, err)) {
      err << "nothing was done\n";
      return 1;
    }
  }
  Drill drill(options, **venue, err);
  if (const auto ready = drill.prepare(); !ready) return complain(ready.error());
  Result<void> done;
  for (auto fault = faults->begin(); done && fault != faults->end(); ++fault) {
    done = drill.run(*fault);
  }
  const DrillReport report = drill.report();  // of those that were done
  out << report_table(report) << std::flush;
  if (!write_json(options, report)) {
    err << options.json.string() << ": cannot be written\n";
    return 1;
  }
  if (!done) return complain(done.error());
  return report.good() ? 0 : 1;
}

}  // namespace gradus::tools
