// The thin shell around a model's ladder: stamps, steps, and tells of each move exactly once.
#pragma once
#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/model_config.h"
#include "ladder/events.h"
#include "ladder/route.h"
#include "ladder/state.h"
#include "ladder/status.h"

namespace gradus::serving {

/// A move as it is shown: the ladder's, with the wall time at which it was made.
struct Move {
  WallTime at;
  ladder::Transition transition;
};

class LadderDriver {
 public:
  LadderDriver(std::string model, const config::ModelConfig& config, const Clock& clock);

  // Request path, any thread. The lock is held for a few hundred nanoseconds.
  ladder::Route route(ladder::Accepted accepted);
  void tell(const ladder::Outcome& outcome) { apply(outcome); }
  void tell(const ladder::Planned& planned);
  void tell(const ladder::TooLate& late);
  /// Without the lock.
  bool can_answer() const { return can_answer_.load(std::memory_order_acquire); }
  /// An answer of this level is worse than the best level that the operator wants. Without the
  /// lock.
  bool degraded_at(int level) const { return level > best_wanted_.load(std::memory_order_acquire); }

  // Loaders and the prober, any thread.
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

  // For people.
  ladder::Status status() const;
  std::vector<Move> moves() const;  // the latest, oldest first

 private:
  template <class Event>
  void apply(const Event& event);

  const std::string model_;
  const Clock& clock_;
  mutable Mutex mutex_;
  ladder::State state_ GUARDED_BY(mutex_);
  std::deque<Move> moves_ GUARDED_BY(mutex_);
  std::atomic<bool> can_answer_{false};
  std::atomic<int> best_wanted_{0};
};

}  // namespace gradus::serving
