#include "serving/ladder_driver.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "ladder/step.h"

namespace gradus::serving {
namespace {

constexpr std::size_t kMovesKept = 100;

ladder::State make_ladder(const std::string& model, const config::ModelConfig& config,
                          TimePoint start) {
  std::vector<ladder::LevelSpec> levels;
  for (const config::LevelConfig& level : config.levels) {
    levels.push_back({level.level, level.target_p99, config::is_gpu_level(level)});
  }
  auto state = ladder::make_state(levels, config.policy, start);
  if (!state) {  // the configuration was checked
    std::fprintf(stderr, "model '%s': %s\n", model.c_str(), state.error().message.c_str());
    std::abort();
  }
  return std::move(*state);
}

int best_wanted(const ladder::State& state) {
  int best = 0;
  for (const ladder::LevelState& level : state.levels) {
    best = level.number;
    if (!level.left_out()) break;
  }
  return best;
}

std::string level_text(const std::optional<int>& level) {
  return level ? "level " + std::to_string(*level) : "no level";
}

void log_move(const std::string& model, const ladder::Transition& move) {
  const bool down = !move.to || (move.from && *move.to > *move.from);
  // What a start adds up to is logged once, when every level is there or has failed.
  const bool starting =
      move.cause == ladder::Cause::kStarted || move.cause == ladder::Cause::kArrived;
  log::write(down       ? log::Severity::kWarning
             : starting ? log::Severity::kDebug
                        : log::Severity::kInfo,
             "model '" + model + "' moves from " + level_text(move.from) + " to " +
                 level_text(move.to) + ": " + move.evidence,
             {{"cause", ladder::to_string(move.cause)}});
}

}  // namespace

LadderDriver::LadderDriver(std::string model, const config::ModelConfig& config, const Clock& clock)
    : model_(std::move(model)), clock_(clock), state_(make_ladder(model_, config, clock.now())) {
  best_wanted_ = best_wanted(state_);
}

ladder::Route LadderDriver::route(ladder::Accepted accepted) {
  const MutexLock lock(mutex_);
  return ladder::route(state_, accepted, clock_.now());
}

void LadderDriver::tell(const ladder::Planned& planned) {
  const MutexLock lock(mutex_);
  ladder::step(state_, planned);
}

void LadderDriver::tell(const ladder::TooLate& late) {
  const MutexLock lock(mutex_);
  ladder::step(state_, late);
}

void LadderDriver::tell(const ladder::Prediction& prediction) {
  const MutexLock lock(mutex_);
  ladder::step(state_, prediction);
}

template <class Event>
void LadderDriver::apply(const Event& event) {
  std::optional<ladder::Transition> move;
  {
    const MutexLock lock(mutex_);
    move = ladder::step(state_, event);
    can_answer_.store(state_.current.has_value(), std::memory_order_release);
    best_wanted_.store(best_wanted(state_), std::memory_order_release);
    if (move) {
      moves_.push_back({wall_now(), *move});
      if (moves_.size() > kMovesKept) moves_.pop_front();
    }
  }
  if (move) log_move(model_, *move);
}

template void LadderDriver::apply(const ladder::Ready&);
template void LadderDriver::apply(const ladder::Lost&);
template void LadderDriver::apply(const ladder::LeftOut&);
template void LadderDriver::apply(const ladder::Outcome&);
template void LadderDriver::apply(const ladder::Probe&);
template void LadderDriver::apply(const ladder::Tick&);

bool LadderDriver::wants_probe(int level) const {
  const MutexLock lock(mutex_);
  return ladder::wants_probe(state_, level, clock_.now());
}

bool LadderDriver::left_out(int level) const {
  const MutexLock lock(mutex_);
  return state_.levels[ladder::index_of(state_, level)].left_out();
}

ladder::Status LadderDriver::status() const {
  const MutexLock lock(mutex_);
  return ladder::status(state_, clock_.now());
}

std::vector<Move> LadderDriver::moves() const {
  const MutexLock lock(mutex_);
  return {moves_.begin(), moves_.end()};
}

}  // namespace gradus::serving
