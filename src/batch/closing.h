// When a batch closes, and who is in it: look at the queue, decide on plain numbers, take. The
// three belong under one lock of the level; only the caller's loop waits, until `look_again` or the
// next event (an arrival, an instance that becomes idle).
#pragma once
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "batch/queue.h"

namespace gradus::batch {

struct Rules {
  std::uint32_t max_size = 1;  // samples of one batch, >= 1; a larger single request runs alone
  Duration max_delay{};        // the longest wait for a fuller batch; 0: none
  std::vector<std::uint32_t> preferred_sizes;  // ascending, each in 1..max_size
  double max_padding_waste = 0.25;             // share of a batch's elements that may be padding
  Duration margin = std::chrono::milliseconds(1);  // for waking up, joining and splitting
};

/// What would run together if the batch closed now: the first in order, and whatever of its group
/// still fits, in order. Entries past their deadline are in no batch.
struct Candidate {
  std::uint32_t samples = 0;    // 0: nothing waits that may still run
  std::int64_t longest = 0;     // padded length
  std::uint32_t preferred = 0;  // the largest preferred size that its first entries make exactly
  bool alone = false;           // the first entry never runs with others
  bool full = false;            // max_size reached, or one of the group no longer fits in it
  TimePoint oldest = TimePoint::max();    // begin of the longest wait in the queue
  TimePoint deadline = TimePoint::max();  // the earliest of the candidate's
};
Candidate look(Queue& queue, const Rules& rules, TimePoint now);

struct Situation {
  TimePoint now{};
  std::uint32_t idle = 0;      // instances that could run a batch now
  std::uint32_t expected = 0;  // samples that are probably on their way (Arrivals)
  Duration run{};              // predicted for the candidate
};

enum class Because {
  kEmpty,          // open: nothing waits
  kBusy,           // open: no instance is idle
  kGathering,      // open: more may come in time
  kAlone,          // closed: it never runs with others
  kPreferred,      // closed: a preferred size is met, and no larger one is in reach
  kFull,           // closed: as large as it may be
  kWaited,         // closed: the oldest in the queue has waited max_delay
  kDeadline,       // closed: later its earliest deadline would be missed
  kNothingComing,  // closed: nothing else is on its way
};
std::string_view because_name(Because because);  // `nothing coming`

struct Decision {
  bool close = false;
  Because because = Because::kEmpty;
  std::uint32_t samples = 0;                // when closed: how many to take at most
  TimePoint look_again = TimePoint::max();  // when open: no event is needed for a new answer then
};
/// The rules in the order of Because: the first that applies closes.
Decision decide(const Candidate& candidate, const Rules& rules, const Situation& situation);

struct Taken {
  std::vector<Entry*> entries;  // in order, one group; the first of them whatever its size
  std::vector<Entry*> expired;  // met on the way, deadline <= now: never to be run
  std::uint32_t samples = 0;
  std::int64_t longest = 0;
};
/// Takes out of the queue what `look` saw, up to `samples` (of a closed Decision, 1..max_size).
Taken take(Queue& queue, const Rules& rules, std::uint32_t samples, TimePoint now);

}  // namespace gradus::batch
