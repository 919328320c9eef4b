// A second attempt beside one that would answer too late.
#include <algorithm>

#include "ladder/events.h"
#include "ladder/plan.h"
#include "serving/in_flight.h"

namespace gradus::serving {

bool InFlight::may_be_hedged(const LevelSlot& slot) const {
  for (std::size_t place = 0; place < route_.size(); ++place) {
    const LevelSlot* const next = route_.proven(place) ? untried(place) : nullptr;
    if (next != nullptr && !share_device(slot.config, next->config)) return true;
  }
  return false;
}

void InFlight::hedge(TimePoint now) {
  if (!take_turn()) return wake_at(std::min(deadline_, now + std::chrono::milliseconds(1)));
  Attempt* from = nullptr;
  bool only_one = false;
  {
    const MutexLock lock(mutex_);
    for (Attempt& one : attempts_) {
      if (one.slot_ != nullptr) from = &one;
    }
    only_one = from != nullptr && other(*from).slot_ == nullptr;
  }
  const auto again = only_one ? hedge_from(*from, other(*from), now) : std::nullopt;
  wake_at(again.value_or(deadline_));
  while (!end_turn()) place_next();
}

// When to look again; nothing: no more. The best level that is still in time is the one.
std::optional<TimePoint> InFlight::hedge_from(Attempt& from, Attempt& into, TimePoint now) {
  int level = 0;
  {
    const MutexLock lock(mutex_);
    if (from.slot_ == nullptr) return std::nullopt;  // failed meanwhile; go_on() is to look again
    level = from.slot_->config.level;
  }
  for (std::size_t place = 0; place < route_.size(); ++place) {
    LevelSlot* slot = nullptr;
    {
      const MutexLock lock(mutex_);
      if (route_.proven(place)) slot = untried(place);
      if (slot != nullptr && (!may_go_to(*slot, into) || held_by_better_tiers(*slot))) {
        slot = nullptr;
      }
    }
    if (slot == nullptr || !bind(into, *slot, place)) continue;
    const ladder::Prospect next = slot->runtime()->queue->prospect(into);
    const auto at = ladder::hedge_at({.started = from.pushed_at_,
                                      .usual = from.usual,
                                      .next = next,
                                      .upwards = slot->config.level < level,
                                      .deadline = deadline_});
    if (!at) continue;
    if (*at > now) return at;
    start_hedge(from, into, place, now);
    return std::nullopt;
  }
  return std::nullopt;
}

void InFlight::start_hedge(Attempt& from, Attempt& into, std::size_t place, TimePoint now) {
  LevelSlot* left = nullptr;
  {
    const MutexLock lock(mutex_);
    left = from.slot_;  // null: it has just failed, and go_on() is to look again
  }
  if (left == nullptr) return;
  // What only waits goes elsewhere; what runs is let run, at the cost of doing it twice.
  if (left->runtime()->queue->remove(from)) {
    model_->ladder.tell(ladder::TooLate{left->config.level, now});
    const MutexLock lock(mutex_);
    note(left, "it would answer after the deadline");
    free(from);
    moved_ = true;
    look_again_ = true;
    return;
  }
  LevelSlot& slot = *model_->slot(route_[place]);
  if (model_->ladder.take_hedge() &&
      place_on(into, slot, place, Admission::kNowAndThen, true) == Placed::kYes) {
    slot.metrics.hedged();
  }
}

}  // namespace gradus::serving
