// Short ways to a scenario and its outcome.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "simulate/rule.h"
#include "simulate/world.h"

namespace gradus::simulate {

using namespace std::chrono_literals;

inline bool long_tests() { return std::getenv("GRADUS_LONG") != nullptr; }

inline Outcome run(const Scenario& scenario, const Rule& rule = kGradus,
                   const config::PolicyConfig& policy = {}) {
  return World(scenario, policy, rule).run();
}

/// A GPU and a CPU that could do twenty times the load by itself.
inline Scenario two_levels(double rate, Duration lasts) {
  Scenario scenario;
  scenario.name = "two levels";
  scenario.lasts = lasts;
  scenario.deadline = 1s;
  scenario.devices = {{"gpu", 1}, {"cpu", 4}};
  scenario.levels = {{.name = "gpu", .device = "gpu", .mean = 10ms, .target_p99 = 50ms},
                     {.name = "cpu", .mean = 20ms, .target_p99 = 200ms, .quality = 0.9}};
  scenario.arrivals.rates = {{0s, rate}};
  return scenario;
}

inline std::size_t moves_by(const Outcome& outcome, ladder::Cause cause) {
  return static_cast<std::size_t>(std::ranges::count_if(
      outcome.moves, [cause](const Move& move) { return move.transition.cause == cause; }));
}

inline std::uint64_t not_in_time(const Outcome& outcome) {
  return outcome.requests - outcome.count(Ending::kInTime);
}

}  // namespace gradus::simulate
