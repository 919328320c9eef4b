// The thin shell around a model's ladder: stamps, steps, and tells of each move exactly once.
#pragma once
#include <atomic>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/model_config.h"
#include "ladder/events.h"
#include "ladder/plan.h"
#include "ladder/route.h"
#include "ladder/state.h"
#include "ladder/status.h"
#include "serving/observer.h"
#include "serving/watch.h"

namespace gradus::serving {

/// A move as it is shown: the ladder's, with the wall time at which it was made.
struct Move {
  WallTime at;
  ladder::Transition transition;
};

/// What moves are counted by.
struct MoveKind {
  std::optional<int> from;
  std::optional<int> to;
  ladder::Cause cause;

  auto operator<=>(const MoveKind&) const = default;
};

class LadderDriver {
 public:
  /// @param observer hears of each move, but for those that a start is made of; may be empty
  LadderDriver(std::string model, std::string version, const config::ModelConfig& config,
               const Clock& clock, Observer observer = {});

  // Request path, any thread. The lock is held for a few hundred nanoseconds.
  ladder::Route route(ladder::Accepted accepted);
  /// The budget allows one run more than there are requests (ladder/plan.h).
  bool take_hedge();
  void tell(const ladder::Outcome& outcome) { apply(outcome); }
  void tell(const ladder::Planned& planned);
  void tell(const ladder::TooLate& late);
  /// Without the lock.
  bool can_answer() const { return can_answer_.load(std::memory_order_acquire); }
  /// The level that gets a share of live traffic before its promotion; nothing: none. Without the
  /// lock.
  std::optional<int> canary() const {
    const int level = canary_.load(std::memory_order_acquire);
    return level < 0 ? std::nullopt : std::optional(level);
  }
  /// An answer of this level is worse than the best level that the operator wants. Without the
  /// lock.
  bool degraded_at(int level) const { return level > best_wanted_.load(std::memory_order_acquire); }

  // Loaders and the prober, any thread. What they tell of a level that an operator has disabled
  // counts once it is enabled again.
  void level_ready(int level) { apply(ladder::Ready{level, clock_.now()}); }
  void level_lost(int level, std::string reason) {
    apply(ladder::Lost{level, clock_.now(), std::move(reason)});
  }
  void level_left_out(int level, ladder::LeftOut::Why why, std::string reason) {
    apply(ladder::LeftOut{level, clock_.now(), why, std::move(reason)});
  }
  void tell(const ladder::Probe& probe) { apply(probe); }
  void tell(const ladder::Prediction& prediction);
  void tick() { apply(ladder::Tick{clock_.now()}); }
  bool wants_probe(int level) const;
  bool left_out(int level) const;
  Standing standing() const;

  // An operator, any thread. kInvalid: there is no such level (which ones there are). Nothing
  // happens where nothing would change: to unpin what is not pinned, to enable what is enabled.
  /// @param how_long nothing: until it is taken back
  /// @return kUnavailable: the level is not ready, and why
  Result<void> pin(int level, std::optional<Duration> how_long, const std::string& reason);
  void unpin() { apply(ladder::Unpinned{clock_.now()}); }
  /// What runs on the level goes on to its end.
  /// @return kUnavailable: it is pinned, or the last one that is left or can answer
  Result<void> disable(int level, const std::string& reason);
  /// The level is what it would be had it never been disabled. One that was ready before climbs by
  /// its hold; one that was not, arrives.
  /// @return kUnavailable: it is disabled by the configuration
  Result<void> enable(int level);
  /// By an operator.
  bool disabled(int level) const;
  /// What an operator told the ladder that this one takes the place of: its pin, as long as it
  /// would have lasted, and what he disabled. What makes no sense here is left out, and logged.
  void inherit(const LadderDriver& other);

  // For people.
  TimePoint now() const { return clock_.now(); }
  ladder::Status status() const;
  std::vector<Move> moves() const;                        // the latest, oldest first
  std::map<MoveKind, std::uint64_t> move_counts() const;  // all since the start

 private:
  /// What a disabled level would be otherwise; the times are those of its news.
  using Beneath = std::variant<ladder::Loading, ladder::Ready, ladder::Lost, ladder::LeftOut>;

  template <class Event>
  void apply(const Event& event);
  /// Calls `change`, which returns the move it made, under the lock; tells of the move without.
  template <class Change>
  void make(Change change);
  std::optional<ladder::Transition> take(const ladder::Ready& event) REQUIRES(mutex_);
  std::optional<ladder::Transition> take(const ladder::Lost& event) REQUIRES(mutex_);
  std::optional<ladder::Transition> take(const ladder::LeftOut& event) REQUIRES(mutex_);
  template <class Event>
  std::optional<ladder::Transition> take(const Event& event) REQUIRES(mutex_);
  template <class Event>
  bool keep_beneath(const Event& event) REQUIRES(mutex_);
  Result<std::size_t> find(int level) const REQUIRES(mutex_);
  Beneath what_is(std::size_t index) const REQUIRES(mutex_);
  Result<void> may_disable(std::size_t index) const REQUIRES(mutex_);

  const std::string model_;
  const std::string version_;
  const Clock& clock_;
  const Observer observer_;
  mutable Mutex mutex_;
  ladder::State state_ GUARDED_BY(mutex_);
  ladder::HedgeBudget hedges_ GUARDED_BY(mutex_);
  std::deque<Move> moves_ GUARDED_BY(mutex_);
  std::map<MoveKind, std::uint64_t> move_counts_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> losses_ GUARDED_BY(mutex_);  // of each level
  // Of each level that an operator has disabled.
  std::vector<std::optional<Beneath>> disabled_ GUARDED_BY(mutex_);
  std::atomic<bool> can_answer_{false};
  std::atomic<int> best_wanted_{0};
  std::atomic<int> canary_{-1};  // -1: none
};

}  // namespace gradus::serving
