#include "serving/ladder_driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "ladder/step.h"

namespace gradus::serving {
namespace {

constexpr std::size_t kMovesKept = 100;
constexpr std::string_view kByOperator = "by an operator";  // and why, after a colon

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

std::string sentence(const std::string& model, const ladder::Transition& move) {
  return "model '" + model + "' moves from " + level_text(move.from) + " to " +
         level_text(move.to) + ": " + move.evidence;
}

void log_move(const std::string& model, const std::string& version,
              const ladder::Transition& move) {
  const bool down = !move.to || (move.from && *move.to > *move.from);
  // What a start adds up to is logged once, when every level is there or has failed.
  const bool starting =
      move.cause == ladder::Cause::kStarted || move.cause == ladder::Cause::kArrived;
  log::write(down       ? log::Severity::kWarning
             : starting ? log::Severity::kDebug
                        : log::Severity::kInfo,
             sentence(model, move),
             {{"event", "transition"},
              {"cause", ladder::to_string(move.cause)},
              {"model", model},
              {"version", version}});
}

// A start's moves are no news: its first levels, and better ones while others still load.
bool is_news(const ladder::State& state, const ladder::Transition& move) {
  return (move.cause != ladder::Cause::kStarted && move.cause != ladder::Cause::kArrived) ||
         move.at - state.start >= state.policy.start_grace;
}

// `level 0 is unavailable: no device`.
std::string what_of(const ladder::LevelState& level) {
  std::string text = "level " + std::to_string(level.number) + " is ";
  if (level.ready()) return text + (level.breaker.closed() ? "ready" : "failing");
  text += ladder::to_string(level.condition);
  return level.reason.empty() ? text : text + ": " + level.reason;
}

bool pinned(const ladder::State& state, std::size_t index, TimePoint now) {
  return state.pin && state.pin->level == index && now < state.pin->until;
}

serving::Event event_of(const std::string& model, const std::string& version, const Move& move) {
  const ladder::Transition& made = move.transition;
  return {.kind = serving::Event::Kind::kTransition,
          .state = serving::Event::State::kOnce,
          .model = model,
          .version = version,
          .from = made.from,
          .to = made.to,
          .cause = ladder::to_string(made.cause),
          .text = sentence(model, made),
          .at = move.at};
}

}  // namespace

LadderDriver::LadderDriver(std::string model, std::string version,
                           const config::ModelConfig& config, const Clock& clock, Observer observer)
    : model_(std::move(model)),
      version_(std::move(version)),
      clock_(clock),
      observer_(std::move(observer)),
      state_(make_ladder(model_, config, clock.now())),
      hedges_(config.policy.hedge_share),
      losses_(state_.levels.size()),
      disabled_(state_.levels.size()) {
  best_wanted_ = best_wanted(state_);
}

ladder::Route LadderDriver::route(ladder::Accepted accepted) {
  const MutexLock lock(mutex_);
  hedges_.request();
  return ladder::route(state_, accepted, clock_.now());
}

bool LadderDriver::take_hedge() {
  const MutexLock lock(mutex_);
  return hedges_.take();
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
std::optional<ladder::Transition> LadderDriver::take(const Event& event) {
  return ladder::step(state_, event);
}

std::optional<ladder::Transition> LadderDriver::take(const ladder::Ready& event) {
  if (keep_beneath(event)) return std::nullopt;
  return ladder::step(state_, event);
}

std::optional<ladder::Transition> LadderDriver::take(const ladder::Lost& event) {
  if (keep_beneath(event)) return std::nullopt;
  ++losses_[ladder::index_of(state_, event.level)];
  return ladder::step(state_, event);
}

std::optional<ladder::Transition> LadderDriver::take(const ladder::LeftOut& event) {
  if (keep_beneath(event)) return std::nullopt;
  return ladder::step(state_, event);
}

template <class Event>
bool LadderDriver::keep_beneath(const Event& event) {
  std::optional<Beneath>& disabled = disabled_[ladder::index_of(state_, event.level)];
  if (!disabled) return false;
  disabled = event;
  return true;
}

template <class Event>
void LadderDriver::apply(const Event& event) {
  make([&]() REQUIRES(mutex_) { return take(event); });
}

template <class Change>
void LadderDriver::make(Change change) {
  std::optional<ladder::Transition> move;
  std::optional<serving::Event> news;
  {
    const MutexLock lock(mutex_);
    move = change();
    can_answer_.store(state_.current.has_value(), std::memory_order_release);
    best_wanted_.store(best_wanted(state_), std::memory_order_release);
    canary_.store(state_.canary ? state_.levels[state_.canary->level()].number : -1,
                  std::memory_order_release);
    if (move) {
      moves_.push_back({wall_now(), *move});
      if (observer_ && is_news(state_, *move)) news = event_of(model_, version_, moves_.back());
      if (moves_.size() > kMovesKept) moves_.pop_front();
      ++move_counts_[{move->from, move->to, move->cause}];
    }
  }
  if (move) log_move(model_, version_, *move);
  if (news) observer_(*news);
}

template void LadderDriver::apply(const ladder::Ready&);
template void LadderDriver::apply(const ladder::Lost&);
template void LadderDriver::apply(const ladder::LeftOut&);
template void LadderDriver::apply(const ladder::Outcome&);
template void LadderDriver::apply(const ladder::Probe&);
template void LadderDriver::apply(const ladder::Tick&);
template void LadderDriver::apply(const ladder::Unpinned&);

Result<std::size_t> LadderDriver::find(int level) const {
  std::string known;
  for (std::size_t i = 0; i < state_.levels.size(); ++i) {
    if (state_.levels[i].number == level) return i;
    known += (known.empty() ? "" : ", ") + std::to_string(state_.levels[i].number);
  }
  return fail(Code::kInvalid, "level = " + std::to_string(level) + ": model '" + model_ +
                                  "' has no such level, it has " + known);
}

Result<void> LadderDriver::pin(int level, std::optional<Duration> how_long,
                               const std::string& reason) {
  Result<void> done;
  make([&]() REQUIRES(mutex_) -> std::optional<ladder::Transition> {
    const auto index = find(level);
    if (!index) {
      done = tl::unexpected(index.error());
    } else if (!state_.levels[*index].ready()) {
      done =
          fail(Code::kUnavailable,
               "model '" + model_ + "' cannot be pinned there: " + what_of(state_.levels[*index]));
    } else {
      const TimePoint now = clock_.now();
      return ladder::step(
          state_,
          ladder::Pinned{level, now, how_long ? now + *how_long : TimePoint::max(), reason});
    }
    return std::nullopt;
  });
  return done;
}

Result<void> LadderDriver::may_disable(std::size_t index) const {
  const ladder::LevelState& level = state_.levels[index];
  const std::string which = "level " + std::to_string(level.number) + " of model '" + model_ + "' ";
  if (pinned(state_, index, clock_.now())) {
    return fail(Code::kUnavailable, which + "is pinned: unpin it first");
  }
  bool one_wanted = false;
  bool one_usable = false;
  std::string others;
  for (const ladder::LevelState& other : state_.levels) {
    if (&other == &level) continue;
    one_wanted = one_wanted || !other.left_out();
    one_usable = one_usable || other.usable();
    others += (others.empty() ? ": " : "; ") + what_of(other);
  }
  if (!one_wanted) return fail(Code::kUnavailable, which + "is the last one that is left" + others);
  if (level.ready() && !one_usable) {
    return fail(Code::kUnavailable, which + "is the only one that can answer now" + others);
  }
  return {};
}

LadderDriver::Beneath LadderDriver::what_is(std::size_t index) const {
  const ladder::LevelState& level = state_.levels[index];
  switch (level.condition) {
    case ladder::Condition::kLoading:
      return ladder::Loading{level.number, {}};
    case ladder::Condition::kReady:
      return ladder::Ready{level.number, {}};
    case ladder::Condition::kUnavailable:
      return ladder::Lost{level.number, {}, level.reason};
    case ladder::Condition::kSkipped:
      return ladder::LeftOut{level.number, {}, ladder::LeftOut::Why::kSkipped, level.reason};
    case ladder::Condition::kDisabled:
      return ladder::LeftOut{level.number, {}, ladder::LeftOut::Why::kDisabled, level.reason};
  }
  std::abort();
}

Result<void> LadderDriver::disable(int level, const std::string& reason) {
  Result<void> done;
  make([&]() REQUIRES(mutex_) -> std::optional<ladder::Transition> {
    const auto index = find(level);
    if (!index) {
      done = tl::unexpected(index.error());
      return std::nullopt;
    }
    if (!disabled_[*index]) {
      done = may_disable(*index);
      if (!done) return std::nullopt;
      disabled_[*index] = what_is(*index);
    }
    return ladder::step(
        state_, ladder::LeftOut{level, clock_.now(), ladder::LeftOut::Why::kDisabled,
                                std::string(kByOperator) + (reason.empty() ? "" : ": " + reason)});
  });
  return done;
}

// Loading first, which it is from where a loss counts; no level that is disabled is current, so
// only what it is then can move the ladder.
Result<void> LadderDriver::enable(int level) {
  Result<void> done;
  make([&]() REQUIRES(mutex_) -> std::optional<ladder::Transition> {
    const auto index = find(level);
    if (!index) {
      done = tl::unexpected(index.error());
      return std::nullopt;
    }
    std::optional<Beneath> beneath = std::exchange(disabled_[*index], std::nullopt);
    if (!beneath) {
      if (state_.levels[*index].condition == ladder::Condition::kDisabled) {
        done = fail(Code::kUnavailable, "model '" + model_ + "': the configuration says so: " +
                                            what_of(state_.levels[*index]));
      }
      return std::nullopt;
    }
    const TimePoint now = clock_.now();
    ladder::step(state_, ladder::Loading{level, now});
    return std::visit(
        [&](auto& event) REQUIRES(mutex_) {
          event.at = now;
          return ladder::step(state_, event);
        },
        *beneath);
  });
  return done;
}

bool LadderDriver::disabled(int level) const {
  const MutexLock lock(mutex_);
  return disabled_[ladder::index_of(state_, level)].has_value();
}

void LadderDriver::inherit(const LadderDriver& other) {
  struct Told {
    int level;
    std::string reason;
    std::optional<TimePoint> pinned_until;  // nothing: disabled
  };
  std::vector<Told> all;
  {
    const MutexLock lock(other.mutex_);
    for (std::size_t i = 0; i < other.disabled_.size(); ++i) {
      const ladder::LevelState& level = other.state_.levels[i];
      const std::size_t why = std::min(kByOperator.size() + 2, level.reason.size());
      if (other.disabled_[i]) all.push_back({level.number, level.reason.substr(why), std::nullopt});
    }
    if (const auto& pin = other.state_.pin; pin && clock_.now() < pin->until) {
      all.push_back({other.state_.levels[pin->level].number, pin->reason, pin->until});
    }
  }
  for (const Told& told : all) {
    std::optional<Duration> left;
    if (told.pinned_until && *told.pinned_until != TimePoint::max()) {
      left = *told.pinned_until - clock_.now();
    }
    const auto done =
        told.pinned_until ? pin(told.level, left, told.reason) : disable(told.level, told.reason);
    if (!done) {
      log::warning("model '" + model_ +
                   "' was loaded anew without what an operator wanted: " + done.error().message);
    }
  }
}

bool LadderDriver::wants_probe(int level) const {
  const MutexLock lock(mutex_);
  return ladder::wants_probe(state_, level, clock_.now());
}

Standing LadderDriver::standing() const {
  const MutexLock lock(mutex_);
  return standing_of(state_, losses_, clock_.now());
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

std::map<MoveKind, std::uint64_t> LadderDriver::move_counts() const {
  const MutexLock lock(mutex_);
  return move_counts_;
}

}  // namespace gradus::serving
