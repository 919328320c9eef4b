#include "tools/drill.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>
#include <vector>

#include "base/cpu_count.h"
#include "tools/drill_faults.h"
#include "tools/drill_http.h"
#include "tools/drill_load.h"
#include "tools/drill_report.h"
#include "tools/drill_sample.h"
#include "tools/drill_scratch.h"
#include "tools/drill_server.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
using fault::Control;
using fault::Place;
using std::chrono::milliseconds;

constexpr double kShareOfCapacity = 0.25;
constexpr Duration kMeasureFor = 1s;
constexpr auto kQuiet = 300ms;     // of good load before a fault, and after it
constexpr Duration kSlack = 60s;   // beyond what the settings say that something may take
constexpr double kMeetings = 100;  // requests within which each fault must have done its work
constexpr int kTargetRuns = 50;    // of level 0, for `slow`
constexpr int kSlowTargets = 3;    // runs take so many targets then; twice the target is slow

// All that one trial needs.
struct Stage {
  const DrillServer& server;
  Control& control;
  const config::PolicyConfig& policy;
  milliseconds target;  // of level 0
  double rate;
  int trials;
};

// Asks `check` again and again; true as soon as it says so.
template <class Check>
bool await(Duration limit, const Check& check) {
  const TimePoint deadline = steady_clock().now() + limit;
  while (!check()) {
    if (steady_clock().now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

Duration strike_limit(const Stage& stage) {
  return kSlack + std::chrono::nanoseconds(std::llround(1e9 * kMeetings / stage.rate));
}

// Relapses double the hold.
Duration climb_limit(const Stage& stage) {
  const int doublings = std::min(stage.trials, 20);
  const auto hold =
      std::min<milliseconds>(stage.policy.hold_cap, stage.policy.hold * (1 << doublings));
  return hold + stage.policy.cooldown + stage.policy.breaker_open + kSlack;
}

// Lets the fault loose. Nothing: it does not strike.
std::optional<TimePoint> strike(const DrillFault& fault, const Stage& stage, pid_t worker) {
  const TimePoint asked = steady_clock().now();
  if (fault.signal != 0) {
    return ::kill(worker, fault.signal) == 0 ? std::optional(asked) : std::nullopt;
  }
  if (fault.gone) {
    stage.control.set_gone(fault::kEveryDevice);
    return asked;
  }
  if (fault.slow) {
    const auto delay = kSlowTargets * stage.target;
    return stage.control.set_delay(delay) ? std::optional(asked) : std::nullopt;
  }
  const std::uint64_t before = stage.control.counters().injected;
  if (!stage.control.order(Place::kRun, *fault.order)) return std::nullopt;
  const bool struck =
      await(strike_limit(stage), [&] { return stage.control.counters().injected > before; });
  if (!struck) return std::nullopt;
  return TimePoint(std::chrono::nanoseconds(stage.control.counters().injected_at_ns));
}

Trial run_trial(const DrillFault& fault, const Stage& stage) {
  Trial trial;
  trial.struck = steady_clock().now();
  const auto before = stage.server.ladder();
  if (!before || !before->worker || before->current != 0) {
    trial.complaint = "level 0 was not current when the fault was due";
    return trial;
  }
  const auto struck = strike(fault, stage, *before->worker);
  if (!struck) {
    trial.complaint = "the fault did not strike: no request met it";
    stage.control.clear();
    return trial;
  }
  trial.struck = *struck;
  const bool fallen = await(strike_limit(stage), [&] {
    if (!fault.level_0_falls) return stage.control.left(Place::kRun) == 0;
    const auto now = stage.server.ladder();
    if (!now) return false;
    const bool lost = now->transitions_down > before->transitions_down || !now->level_0_whole;
    return lost && (fault.ending == Ending::kByItself || now->current != 0);
  });
  if (!fallen) trial.complaint = "the ladder did not leave level 0";
  stage.control.clear();
  const bool back = await(climb_limit(stage), [&] {
    const auto now = stage.server.ladder();
    return now && now->current == 0 && now->level_0_whole;
  });
  if (back) trial.back = steady_clock().now() - trial.struck;
  return trial;
}

Result<std::size_t> downs(const DrillServer& server) {
  const auto view = server.ladder();
  if (!view) return tl::unexpected(view.error());
  return view->transitions_down;
}

class Drill {
 public:
  Drill(const DrillOptions& options, Scratch& scratch, Control& control, std::ostream& err)
      : options_(options), scratch_(scratch), control_(control), err_(err) {}

  Result<FaultReport> run(const DrillFault& fault);

 private:
  Result<void> prepare(const DrillServer& server, const LadderView& ladder);
  Result<milliseconds> slow_target(const DrillServer& server) const;

  const DrillOptions& options_;
  Scratch& scratch_;
  Control& control_;
  std::ostream& err_;
  std::optional<Sample> sample_;
  double rate_ = 0;
  milliseconds slow_target_{};  // twice the slowest warm run of level 0
};

// Once, with the first server: what to send, and how often.
Result<void> Drill::prepare(const DrillServer& server, const LadderView& ladder) {
  auto sample = Sample::take(server.port(), options_.model, ladder.ready, scratch_.cpu_level());
  if (!sample) return tl::unexpected(sample.error());
  sample_ = std::move(*sample);
  const auto target = slow_target(server);
  if (!target) return tl::unexpected(target.error());
  slow_target_ = *target;
  rate_ = options_.rate;
  if (rate_ > 0) return {};
  const LoadPlan plan = sample_->plan(server.port(), scratch_.cpu_level());
  const double capacity = closed_loop_rate(plan, usable_cpus(), kMeasureFor);
  if (capacity <= 0) return fail(Code::kInternal, "the CPU level fails without a fault");
  rate_ = capacity * kShareOfCapacity;
  err_ << "the CPU level takes " << std::lround(capacity) << " requests a second\n";
  return {};
}

// Twice the slowest of some runs of level 0, which is warm.
Result<milliseconds> Drill::slow_target(const DrillServer& server) const {
  const LoadPlan plan = sample_->plan(server.port(), 0);
  Duration slowest{};
  for (int i = 0; i < kTargetRuns; ++i) {
    const TimePoint begun = steady_clock().now();
    const auto answer = exchange(server.port(), plan.request, begun + kSlack);
    if (!answer) return tl::unexpected(answer.error());
    slowest = std::max(slowest, steady_clock().now() - begun);
  }
  return std::chrono::ceil<milliseconds>(2 * slowest);
}

Result<FaultReport> Drill::run(const DrillFault& fault) {
  std::optional<DrillServer> server;
  const auto start = [&](std::optional<milliseconds> target) -> Result<LadderView> {
    server.reset();
    if (const auto written = scratch_.write(target); !written) {
      return tl::unexpected(written.error());
    }
    auto started = DrillServer::start(scratch_, options_.model);
    if (!started) return tl::unexpected(started.error());
    server.emplace(std::move(*started));
    return server->ladder();
  };
  if (!sample_) {
    const auto ladder = start({});
    if (!ladder) return tl::unexpected(ladder.error());
    if (const auto done = prepare(*server, *ladder); !done) return tl::unexpected(done.error());
  }
  // A GPU's target may be too much for level 0 on this CPU: it would never climb back.
  const milliseconds own = scratch_.model().levels.front().target_p99;
  const milliseconds target = fault.slow ? slow_target_ : std::max(own, slow_target_);
  const auto ladder = start(target);
  if (!ladder) return tl::unexpected(ladder.error());
  err_ << fault.name << ": " << fault.meaning << "; " << options_.trials << " times at "
       << static_cast<double>(std::lround(rate_ * 10)) / 10 << " requests a second" << std::endl;

  const config::PolicyConfig& policy = scratch_.model().policy;
  const Stage stage{*server, control_, policy, target, rate_, options_.trials};
  const LoadPlan plan = sample_->plan(server->port());
  OpenLoad load(plan, rate_);
  std::vector<Trial> trials;
  for (int i = 0; i < options_.trials; ++i) {
    std::this_thread::sleep_for(kQuiet);
    if (i > 0) {  // within the cooldown the ladder would not move down again
      std::this_thread::sleep_until(trials.back().struck + policy.cooldown);
    }
    trials.push_back(run_trial(fault, stage));
    if (!trials.back().back) break;  // there is nothing left to break
  }
  std::this_thread::sleep_for(kQuiet);
  const std::vector<SentRequest> requests = load.stop();
  const auto downs_now = downs(*server);
  if (!downs_now) return tl::unexpected(downs_now.error());
  return summarize(std::string(fault.name), trials, requests,
                   *downs_now - ladder->transitions_down);
}

int exit_code(Code code) { return code == Code::kInvalid ? 2 : 1; }

}  // namespace

int drill(const DrillOptions& options, std::ostream& out, std::ostream& err) {
  const auto complain = [&err](const Error& error) {
    err << error.message << std::endl;
    return exit_code(error.code);
  };
  const auto faults = parse_drill_faults(options.faults);
  if (!faults) return complain(faults.error());
  auto scratch = Scratch::make(options);
  if (!scratch) return complain(scratch.error());
  auto control = Control::create(scratch->control());
  if (!control) return complain(control.error());
  Drill drill(options, *scratch, *control, err);
  std::vector<FaultReport> reports;
  for (const DrillFault& fault : *faults) {
    auto report = drill.run(fault);
    if (!report) return complain(report.error());
    reports.push_back(std::move(*report));
  }
  out << report_table(reports) << std::flush;
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << report_json(reports);
    file.close();
    if (!file) {
      err << options.json.string() << ": cannot be written\n";
      return 1;
    }
  }
  return std::ranges::all_of(reports, &FaultReport::good) ? 0 : 1;
}

}  // namespace gradus::tools
