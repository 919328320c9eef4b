// A ladder in simulated time, told event by event; keeps every transition.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ladder/route.h"
#include "ladder/status.h"
#include "ladder/step.h"

namespace gradus::ladder {

using namespace std::chrono_literals;

/// The default ladder with the default targets.
inline std::vector<LevelSpec> four_levels() {
  return {{0, 50ms}, {1, 800ms}, {2, 500ms}, {3, 200ms}};
}

class Story {
 public:
  using Moves = std::vector<std::pair<std::optional<int>, std::optional<int>>>;

  explicit Story(const std::vector<LevelSpec>& levels = four_levels(),
                 const config::PolicyConfig& policy = {})
      : state(*make_state(levels, policy, kStart)) {}

  /// Every level ready at the start; the transitions until then are forgotten.
  static Story all_ready(const std::vector<LevelSpec>& levels = four_levels(),
                         const config::PolicyConfig& policy = {}) {
    Story story(levels, policy);
    for (const LevelSpec& level : levels) story.ready(level.level);
    story.transitions.clear();
    return story;
  }

  void pass(Duration by) { now_ += by; }
  void until(Duration since_start) { now_ = kStart + since_start; }
  Duration since_start() const { return now_ - kStart; }
  TimePoint now() const { return now_; }

  void ready(int level) { keep(step(state, Ready{level, now_})); }
  void loading(int level) { keep(step(state, Loading{level, now_})); }
  void lost(int level, std::string why = "worker died") {
    keep(step(state, Lost{level, now_, std::move(why)}));
  }
  void left_out(int level, LeftOut::Why why, std::string reason = "because") {
    keep(step(state, LeftOut{level, now_, why, std::move(reason)}));
  }
  void tick() { keep(step(state, Tick{now_})); }
  /// So many requests that start at this level.
  void planned(int level, int requests, bool below_for_time = false) {
    for (int i = 0; i < requests; ++i) step(state, Planned{level, now_, below_for_time});
  }
  void predict(int level, std::optional<Duration> p99) { step(state, Prediction{level, p99}); }

  /// An execution that ends now.
  void outcome(int level, bool ok, Duration run = 1ms, Duration queue = 0ms,
               std::uint64_t bucket = 7) {
    keep(step(state, Outcome{level, now_ - run, now_, queue, run, ok, bucket}));
  }
  /// One that was ended, for nobody waited for it any more.
  void stopped(int level, Duration after) {
    keep(step(state, Outcome{level, now_ - after, now_, 0ms, after, true, 7, true}));
  }
  void good(int level, Duration run = 1ms) { outcome(level, true, run); }
  void bad(int level, int times = 1, std::string_view error = {}) {
    for (int i = 0; i < times; ++i) {
      pass(10ms);
      keep(step(state, Outcome{level, now_ - 1ms, now_, 0ms, 1ms, false, 7, false, error}));
    }
  }
  void probe(int level, bool ok = true, Duration run = 1ms, std::string_view error = {}) {
    keep(step(state, Probe{level, now_, run, ok, error}));
  }
  /// A good probe of each of these levels now and each second, a tick with it, up to that time.
  void probe_until(Duration since_start_end, const std::vector<int>& levels) {
    for (;; pass(1s)) {
      for (const int level : levels) probe(level);
      tick();
      if (now_ + 1s > kStart + since_start_end) break;
    }
    until(since_start_end);
  }
  void tick_until(Duration since_start_end) {
    for (; since_start() < since_start_end; pass(1s)) tick();
    until(since_start_end);
    tick();
  }

  std::vector<int> route_of(int min_level = 0, int max_level = 99) {
    const Route r = route(state, {min_level, max_level}, now_);
    return {r.begin(), r.end()};
  }
  std::optional<int> current() const {
    if (!state.current) return std::nullopt;
    return state.levels[*state.current].number;
  }
  BreakerState breaker(int level) const { return of(level).breaker.state(now_); }
  const LevelState& of(int level) const { return state.levels[index_of(state, level)]; }
  Moves moves() const {
    Moves moves;
    for (const Transition& t : transitions) moves.emplace_back(t.from, t.to);
    return moves;
  }
  Cause last_cause() const {
    EXPECT_FALSE(transitions.empty());
    return transitions.back().cause;
  }

  static constexpr TimePoint kStart{1000h};
  State state;
  std::vector<Transition> transitions;

 private:
  void keep(std::optional<Transition> transition) {
    if (transition) transitions.push_back(*std::move(transition));
  }

  TimePoint now_ = kStart;
};

}  // namespace gradus::ladder
