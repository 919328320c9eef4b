#include "tools/drill_trial.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <thread>

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
using fault::Place;
using std::chrono::milliseconds;

constexpr Duration kLook = 5ms;
constexpr Duration kSlack = 60s;          // beyond what the settings say that something may take
constexpr Duration kCrashLoopMost = 80s;  // a running server's pause, with its jitter
constexpr double kMeetings = 100;  // requests within which each fault must have done its work
constexpr int kSlowTargets = 3;    // runs take so many targets then; twice the target is slow
constexpr auto kClockSkew = 5ms;   // between the moves' wall times and the hold's steady one

// Asks `check` again and again; true as soon as it says so.
template <class Check>
bool await(Duration limit, const Check& check) {
  const TimePoint deadline = steady_clock().now() + limit;
  while (!check()) {
    if (steady_clock().now() > deadline) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

Duration strike_limit(const Stage& stage) {
  return kSlack + std::chrono::nanoseconds(std::llround(1e9 * kMeetings / stage.rate));
}

// Relapses double the hold; what was slow counts against the level until the window has passed.
Duration climb_limit(const Stage& stage) {
  const config::PolicyConfig& policy = stage.venue.policy();
  const int doublings = std::min(stage.trials, 20);
  const auto hold = std::min<milliseconds>(policy.hold_cap, policy.hold * (1 << doublings));
  return hold + 2 * policy.canary_stage_max + policy.window + policy.cooldown +
         policy.breaker_open + kSlack + (stage.venue.is_ours() ? Duration{} : kCrashLoopMost);
}

// Lets the fault loose.
Result<TimePoint> strike(const DrillFault& fault, const Stage& stage, pid_t worker) {
  const auto missed = [] {
    return fail(Code::kUnavailable, "the fault did not strike: no request met it");
  };
  if (const auto taken = stage.venue.take(fault.taken); !taken) {
    return tl::unexpected(taken.error());
  }
  const TimePoint asked = steady_clock().now();
  if (fault.signal != 0) {
    if (::kill(worker, fault.signal) != 0) {
      return fail(Code::kUnavailable, "no signal reaches worker " + std::to_string(worker));
    }
    return asked;
  }
  fault::Control& control = *stage.venue.control();
  if (fault.gone) {
    control.set_gone(fault::kEveryDevice);
    return asked;
  }
  if (fault.slow) {
    const auto delayed = control.set_delay(kSlowTargets * stage.target);
    return delayed ? Result<TimePoint>(asked) : tl::unexpected(delayed.error());
  }
  const std::uint64_t before = control.counters().injected;
  if (const auto ordered = control.order(Place::kRun, *fault.order); !ordered) {
    return tl::unexpected(ordered.error());
  }
  const bool struck =
      await(strike_limit(stage), [&] { return control.counters().injected > before; });
  if (!struck) return missed();
  return TimePoint(std::chrono::nanoseconds(control.counters().injected_at_ns));
}

// The fault has done its work; what was taken may be given back.
bool is_done(const DrillFault& fault, const Stage& stage, const LadderView& before) {
  if (!fault.level_0_falls) return stage.venue.control()->left(Place::kRun) == 0;
  const auto now = fetch_ladder(stage.venue.port(), stage.model);
  if (!now) return false;
  if (fault.taken != Taken::kNothing) {
    const bool said = now->fault_class == fault.classes.front() &&
                      now->last_fault != before.last_fault &&
                      now->reason.find(stage.venue.taken_name(fault.taken)) != std::string::npos;
    return said && (fault.taken != Taken::kRestarts || now->worker_state == "crash_loop");
  }
  const bool lost =
      !now->level_0_whole || std::ranges::any_of(moves_since(before, *now), &LadderMove::down);
  return lost && (fault.ending == Ending::kByItself || now->current != 0);
}

std::string not_done(const DrillFault& fault, const Stage& stage) {
  if (fault.taken == Taken::kNothing) return "the ladder did not leave level 0";
  const auto now = fetch_ladder(stage.venue.port(), stage.model);
  return "the status does not tell why level 0 cannot be loaded: " +
         (now ? now->fault_class + "; " + now->worker_state + "; " + now->reason
              : now.error().message);
}

}  // namespace

std::string class_of(const LadderView& before, const LadderView& after) {
  if (after.last_fault != before.last_fault) return after.fault_class;
  const std::vector<LadderMove> moves = moves_since(before, after);
  const auto down = std::find_if(moves.rbegin(), moves.rend(),
                                 [](const LadderMove& move) { return move.down(); });
  return down == moves.rend() ? "" : down->cause;
}

std::vector<std::string> broken_promises(const DrillFault& fault,
                                         const std::vector<LadderMove>& moves,
                                         const std::string& fault_class,
                                         std::optional<Duration> hold) {
  std::vector<std::string> broken;
  const auto is_down = [](const LadderMove& move) { return move.down(); };
  const auto downs = std::ranges::count_if(moves, is_down);
  if (downs > 1) broken.push_back("the ladder moved down " + std::to_string(downs) + " times");
  if (!fault.level_0_falls && downs == 1) {
    broken.push_back("the ladder moved down for one failure");
  }
  const bool known = fault.classes.empty()
                         ? fault_class.empty()
                         : std::ranges::find(fault.classes, fault_class) != fault.classes.end();
  if (!known) {
    broken.push_back("the status says '" + fault_class + "' of it, not '" +
                     (fault.classes.empty() ? "" : std::string(fault.classes.front())) + "'");
  }
  const auto fell = std::find_if(moves.begin(), moves.end(), is_down);
  const auto rose =
      std::find_if(fell, moves.end(), [](const LadderMove& move) { return move.to == 0; });
  if (hold && fell != moves.end() && rose != moves.end() &&
      rose->at - fell->at + kClockSkew < *hold) {
    broken.push_back("level 0 was current again after " +
                     std::to_string((rose->at - fell->at) / 1ms) + " ms, before its hold");
  }
  return broken;
}

Trial run_trial(const DrillFault& fault, const Stage& stage, LadderView& seen) {
  Trial trial;
  trial.struck = steady_clock().now();
  const auto before = fetch_ladder(stage.venue.port(), stage.model);
  if (!before || !before->worker || before->current != 0) {
    trial.faults.emplace_back("level 0 was not current when the fault was due");
    return trial;
  }
  const auto struck = strike(fault, stage, *before->worker);
  if (!struck) {
    trial.faults.push_back(struck.error().message);
    stage.venue.give_back();
    return trial;
  }
  trial.struck = *struck;
  if (!await(strike_limit(stage), [&] { return is_done(fault, stage, *before); })) {
    trial.faults.push_back(not_done(fault, stage));
  }
  stage.venue.give_back();
  std::optional<LadderView> after;
  const bool back = await(climb_limit(stage), [&] {
    const auto now = fetch_ladder(stage.venue.port(), stage.model);
    if (now) after = *now;
    return now && now->current == 0 && now->level_0_whole;
  });
  if (back) trial.back = steady_clock().now() - trial.struck;
  if (!after) return trial;
  trial.fault_class = class_of(*before, *after);
  const std::vector<LadderMove> moves = moves_since(seen, *after);
  trial.downs = static_cast<std::size_t>(
      std::ranges::count_if(moves, [](const LadderMove& move) { return move.down(); }));
  std::ranges::copy(broken_promises(fault, moves, trial.fault_class, stage.venue.hold()),
                    std::back_inserter(trial.faults));
  seen = *after;
  return trial;
}

}  // namespace gradus::tools
