// Every threshold of the degradation policy (docs/architecture.md, "The policy"), with defaults.
#pragma once
#include <chrono>
#include <cstdint>

namespace gradus::config {

struct PolicyConfig {
  using Ms = std::chrono::milliseconds;

  // The window of outcomes.
  Ms window{30'000};                 // how far back outcomes count
  std::uint32_t window_runs = 1000;  // at most this many executions

  // Soft demotion.
  Ms cooldown{60'000};                     // from one demotion to the next soft one
  std::uint32_t consecutive_failures = 3;  // in a row, also what opens the breaker
  double error_rate = 0.20;                // over this share of the window's outcomes …
  std::uint32_t error_rate_outcomes = 10;  // … with at least so many of them
  std::uint32_t slow_samples = 20;         // slowness needs at least so many samples …
  std::uint32_t slow_count = 3;            // … of which at least so many are slow …
  double slow_share = 0.02;                // … and more than this share
  double slow_factor = 2.0;                // slow: longer than this many targets
  std::uint32_t warm_runs_per_bucket = 2;  // first runs of a shape that do not count
  Ms idle_gap{2'000};                      // the first run after so long idle does not count

  // Overload.
  double overload_queue_share = 0.5;     // least queueing delay over this share of the target …
  Ms overload_for{1'000};                // … for so long
  double overload_planned_below = 0.10;  // or so many requests planned below the current level

  // Plans.
  double hedge_share = 0.05;  // runs that hedging may add, as a share of the requests

  // Breaker.
  Ms breaker_open{60'000};  // until one trial is let through

  // Promotion.
  Ms hold{30'000};             // good probes for so long
  Ms hold_cap{600'000};        // the hold's cap after relapses
  Ms relapse_within{600'000};  // a demotion so soon after a promotion is a relapse
  Ms quiet_forgives{600'000};  // so long promoted takes one relapse away
  double canary_first_share = 0.05;
  double canary_second_share = 0.25;
  Ms canary_stage_min{5'000};
  std::uint32_t canary_good_answers = 20;
  Ms canary_stage_max{30'000};
  std::uint32_t canary_failures = 2;
  std::uint32_t canary_slow_answers = 3;

  // Start and alerts.
  Ms start_grace{60'000};    // no alert while levels are still loading, up to so long
  Ms urgent_within{10'000};  // the last level answered within so long: urgent

  // Probes.
  Ms probe_every{1'000};

  bool operator==(const PolicyConfig&) const = default;
};

}  // namespace gradus::config
