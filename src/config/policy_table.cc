#include "config/tables.h"

namespace gradus::config {
namespace {

constexpr std::int64_t kDay = 86'400'000;  // ms: longer than this is a slip of the pen
constexpr Range kShare{0, 1, true};

using P = PolicyConfig;

/// Refuses `key` where it is over `bound_key`.
void at_most(Reader& reader, std::string_view key, double value, const std::string& bound_key,
             double bound) {
  if (value <= bound) return;
  reader.refuse_key(key, show_number(value),
                    "must be at most " + bound_key + " = " + show_number(bound).text);
}

}  // namespace

const Fields<PolicyConfig>& policy_fields() {
  static const Fields<PolicyConfig> fields = {
      milliseconds("window_ms", &P::window, 1, kDay, "how far back outcomes count"),
      integer("window_runs", &P::window_runs, 1, 1'000'000, "executions in the window, at most"),

      milliseconds("cooldown_ms", &P::cooldown, 0, kDay,
                   "least time from a demotion to the next soft one"),
      integer("consecutive_failures", &P::consecutive_failures, 1, 1000,
              "failures in a row that demote, and open the breaker"),
      number("error_rate", &P::error_rate, kShare, "demotes when more of the window failed …"),
      integer("error_rate_outcomes", &P::error_rate_outcomes, 1, 1'000'000,
              "… of at least so many outcomes; at most `window_runs`"),
      integer("slow_samples", &P::slow_samples, 1, 1'000'000,
              "slowness needs so many samples; at most `window_runs`"),
      integer("slow_count", &P::slow_count, 1, 1'000'000,
              "… of which at least so many are slow; at most `slow_samples`"),
      number("slow_share", &P::slow_share, kShare, "… and more than this share of them"),
      number("slow_factor", &P::slow_factor, {1, 100}, "slow: longer than so many p99 targets"),
      integer("warm_runs_per_bucket", &P::warm_runs_per_bucket, 0, 100,
              "first runs of a shape that do not count as slow"),
      milliseconds("idle_gap_ms", &P::idle_gap, 1, kDay,
                   "the first run after so long idle does not count as slow"),

      number("overload_queue_share", &P::overload_queue_share, kShare,
             "overload: least queueing delay over this share of the target …"),
      milliseconds("overload_for_ms", &P::overload_for, 1, kDay, "… for so long"),
      number("overload_planned_below", &P::overload_planned_below, kShare,
             "or more than this share of requests planned below the current level"),

      number("hedge_share", &P::hedge_share, {0, 1},
             "runs beside one that is late already, as a share of the requests; 0: none"),

      milliseconds("breaker_open_ms", &P::breaker_open, 1, kDay,
                   "until an open breaker lets one trial through"),

      milliseconds("hold_ms", &P::hold, 1, kDay,
                   "good probes for so long before a promotion; at most `hold_cap_ms`"),
      milliseconds("hold_cap_ms", &P::hold_cap, 1, kDay, "the hold's cap after relapses"),
      milliseconds("relapse_within_ms", &P::relapse_within, 0, kDay,
                   "a demotion so soon after a promotion is a relapse"),
      milliseconds("quiet_forgives_ms", &P::quiet_forgives, 1, kDay,
                   "so long promoted takes one relapse away"),
      number("canary_first_share", &P::canary_first_share, kShare,
             "live traffic in the first canary stage; at most `canary_second_share`"),
      number("canary_second_share", &P::canary_second_share, kShare, "… in the second stage"),
      milliseconds("canary_stage_min_ms", &P::canary_stage_min, 0, kDay,
                   "a stage's least time; at most `canary_stage_max_ms`; 0: no canary"),
      integer("canary_good_answers", &P::canary_good_answers, 1, 1'000'000,
              "good answers that end a stage"),
      milliseconds("canary_stage_max_ms", &P::canary_stage_max, 1, kDay,
                   "after so long probes make up the missing answers"),
      integer("canary_failures", &P::canary_failures, 1, 1'000'000, "failures that fail a stage"),
      integer("canary_slow_answers", &P::canary_slow_answers, 1, 1'000'000,
              "answers over target that fail a stage"),

      milliseconds("start_grace_ms", &P::start_grace, 0, kDay,
                   "no alert while levels are still loading, up to so long"),
      milliseconds(
          "urgent_within_ms", &P::urgent_within, 1, kDay,
          "the last level answered within so long who would have taken a better one: urgent alert"),
      milliseconds("probe_every_ms", &P::probe_every, 1, kDay,
                   "time between probes of a level; at most `hold_ms`"),
  };
  return fields;
}

void check_policy(const PolicyConfig& p, Reader& reader) {
  const auto ms = [](std::chrono::milliseconds time) { return static_cast<double>(time.count()); };
  at_most(reader, "error_rate_outcomes", p.error_rate_outcomes, "window_runs", p.window_runs);
  at_most(reader, "slow_samples", p.slow_samples, "window_runs", p.window_runs);
  at_most(reader, "slow_count", p.slow_count, "slow_samples", p.slow_samples);
  at_most(reader, "hold_ms", ms(p.hold), "hold_cap_ms", ms(p.hold_cap));
  at_most(reader, "canary_first_share", p.canary_first_share, "canary_second_share",
          p.canary_second_share);
  at_most(reader, "canary_stage_min_ms", ms(p.canary_stage_min), "canary_stage_max_ms",
          ms(p.canary_stage_max));
  at_most(reader, "probe_every_ms", ms(p.probe_every), "hold_ms", ms(p.hold));
}

}  // namespace gradus::config
