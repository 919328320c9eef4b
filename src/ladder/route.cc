#include "ladder/route.h"

namespace gradus::ladder {
namespace {

/// Levels that an open breaker put aside, open longest first.
class Aside {
 public:
  void insert(const LevelState& level) {
    std::size_t i = size_++;
    for (; i > 0 && levels_[i - 1]->breaker.opened_at() > level.breaker.opened_at(); --i) {
      levels_[i] = levels_[i - 1];
    }
    levels_[i] = &level;
  }
  void append_to(Route& route) const {
    for (std::size_t i = 0; i < size_; ++i) route.append(levels_[i]->number, false);
  }

 private:
  std::array<const LevelState*, kMaxLevels> levels_{};
  std::size_t size_ = 0;
};

}  // namespace

Route route(State& state, Accepted accepted, TimePoint at) {
  const auto accepts = [&](const LevelState& level) {
    return level.ready() && level.number >= accepted.min_level &&
           level.number <= accepted.max_level;
  };
  const std::size_t current = state.current.value_or(0);
  state.routed_at = at;
  Route route;
  const LevelState* canary = nullptr;
  if (state.canary && accepts(state.levels[state.canary->level()]) &&
      accepts(state.levels[current]) && state.canary->takes_next(state.policy)) {
    canary = &state.levels[state.canary->level()];
    route.append(canary->number, true);
  }
  Route unproven;
  Aside open;

  for (std::size_t i = current; i < state.levels.size(); ++i) {
    LevelState& level = state.levels[i];
    if (!accepts(level)) continue;
    if (level.breaker.closed()) {
      route.append(level.number, true);
    } else if (route.size() == (canary != nullptr ? 1 : 0) && level.breaker.trial_due(at)) {
      level.breaker.claim_trial(at, state.policy.breaker_open);
      route.append(level.number, false);
    } else {
      open.insert(level);
    }
  }
  for (std::size_t i = 0; i < current; ++i) {
    const LevelState& level = state.levels[i];
    if (!accepts(level) || &level == canary) continue;
    if (!level.breaker.closed()) {
      open.insert(level);
    } else {
      (level.last_probe_ok ? route : unproven).append(level.number, level.last_probe_ok);
    }
  }

  for (const int level : unproven) route.append(level, false);
  open.append_to(route);
  return route;
}

}  // namespace gradus::ladder
