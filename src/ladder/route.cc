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
    for (std::size_t i = 0; i < size_; ++i) route.append(levels_[i]->number);
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
  Route route;
  Route unproven;
  Aside open;

  for (std::size_t i = current; i < state.levels.size(); ++i) {
    LevelState& level = state.levels[i];
    if (!accepts(level)) continue;
    if (level.breaker.closed()) {
      route.append(level.number);
    } else if (route.empty() && level.breaker.trial_due(at)) {
      level.breaker.claim_trial(at, state.policy.breaker_open);
      route.append(level.number);
    } else {
      open.insert(level);
    }
  }
  for (std::size_t i = 0; i < current; ++i) {
    const LevelState& level = state.levels[i];
    if (!accepts(level)) continue;
    if (!level.breaker.closed()) {
      open.insert(level);
    } else {
      (level.last_probe_ok ? route : unproven).append(level.number);
    }
  }

  for (const int level : unproven) route.append(level);
  open.append_to(route);
  return route;
}

}  // namespace gradus::ladder
