#include "batch/closing.h"

#include <algorithm>
#include <cstdlib>

namespace gradus::batch {
namespace {

// A batch that grows entry by entry.
struct Growing {
  std::uint64_t group = 0;
  std::uint64_t samples = 0;  // a single entry may be larger than a batch
  std::int64_t longest = 0;
  double elements = 0;  // samples x length without padding

  bool empty() const { return samples == 0; }
  bool has_room_for(const Entry& entry, std::uint64_t most) const {
    return empty() || samples + entry.samples <= most;
  }
  bool agrees_with(const Entry& entry, double most_waste) const {
    if (empty()) return true;
    const double padded = static_cast<double>(samples + entry.samples) *
                          static_cast<double>(std::max(longest, entry.length));
    return padded - elements - own_elements(entry) <= most_waste * padded;
  }
  void add(const Entry& entry) {
    group = entry.group;
    samples += entry.samples;
    longest = std::max(longest, entry.length);
    elements += own_elements(entry);
  }
  static double own_elements(const Entry& entry) {
    return static_cast<double>(entry.samples) * static_cast<double>(entry.length);
  }
};

// Walks the queue as a batch of at most `most` samples would be filled. Returns true when it met
// one of the group that had no room.
template <class Add, class Expired>
bool fill(Queue& queue, const Rules& rules, std::uint64_t most, TimePoint now, Growing& batch,
          Add add, Expired expired) {
  bool left_out = false;
  for (Entry& entry : queue.in_order(now)) {
    if (!batch.empty() && (batch.group == 0 || batch.samples >= most)) break;
    if (entry.deadline <= now) {
      expired(entry);
      continue;
    }
    if (!batch.empty() && entry.group != batch.group) continue;
    if (!batch.has_room_for(entry, most)) {
      left_out = true;
    } else if (batch.agrees_with(entry, rules.max_padding_waste)) {
      batch.add(entry);
      add(entry);
    }
  }
  return left_out;
}

std::uint32_t capped(std::uint64_t samples) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(samples, UINT32_MAX));
}

// The preferred size is the best that the samples now in sight can reach.
bool preferred_is_best(const Candidate& candidate, const Rules& rules, std::uint32_t expected) {
  if (candidate.preferred == 0) return false;
  const auto larger = std::upper_bound(rules.preferred_sizes.begin(), rules.preferred_sizes.end(),
                                       candidate.preferred);
  return larger == rules.preferred_sizes.end() ||
         std::uint64_t{candidate.samples} + expected < *larger;
}

}  // namespace

Candidate look(Queue& queue, const Rules& rules, TimePoint now) {
  Candidate candidate;
  Growing batch;
  const auto add = [&](const Entry& entry) {
    candidate.deadline = std::min(candidate.deadline, entry.deadline);
    if (std::binary_search(rules.preferred_sizes.begin(), rules.preferred_sizes.end(),
                           batch.samples)) {
      candidate.preferred = capped(batch.samples);
    }
  };
  const bool left_out = fill(queue, rules, rules.max_size, now, batch, add, [](Entry&) {});
  candidate.samples = capped(batch.samples);
  candidate.longest = batch.longest;
  candidate.alone = !batch.empty() && batch.group == 0;
  candidate.full = left_out || batch.samples >= rules.max_size;
  candidate.oldest = queue.oldest();
  return candidate;
}

Decision decide(const Candidate& candidate, const Rules& rules, const Situation& situation) {
  const auto open = [](Because because, TimePoint look_again = TimePoint::max()) {
    return Decision{false, because, 0, look_again};
  };
  const auto closed = [&](Because because) {
    return Decision{true, because, rules.max_size, TimePoint::max()};
  };
  if (candidate.samples == 0) return open(Because::kEmpty);
  if (situation.idle == 0) return open(Because::kBusy);
  if (candidate.alone) return closed(Because::kAlone);
  if (preferred_is_best(candidate, rules, situation.expected)) {
    return {true, Because::kPreferred, candidate.preferred, TimePoint::max()};
  }
  if (candidate.full) return closed(Because::kFull);
  const TimePoint waited = candidate.oldest + rules.max_delay;
  if (waited <= situation.now) return closed(Because::kWaited);
  const TimePoint in_time = candidate.deadline - situation.run - rules.margin;
  if (in_time <= situation.now) return closed(Because::kDeadline);
  if (situation.expected == 0) return closed(Because::kNothingComing);
  return open(Because::kGathering, std::min(waited, in_time));
}

Taken take(Queue& queue, const Rules& rules, std::uint32_t samples, TimePoint now) {
  Taken taken;
  taken.entries.reserve(std::min<std::size_t>(samples, queue.size()));
  Growing batch;
  fill(
      queue, rules, samples, now, batch, [&](Entry& entry) { taken.entries.push_back(&entry); },
      [&](Entry& entry) { taken.expired.push_back(&entry); });
  for (Entry* entry : taken.entries) queue.remove(*entry);
  for (Entry* entry : taken.expired) queue.remove(*entry);
  taken.samples = capped(batch.samples);
  taken.longest = batch.longest;
  return taken;
}

std::string_view because_name(Because because) {
  switch (because) {
    case Because::kEmpty:
      return "empty";
    case Because::kBusy:
      return "busy";
    case Because::kGathering:
      return "gathering";
    case Because::kAlone:
      return "alone";
    case Because::kPreferred:
      return "preferred";
    case Because::kFull:
      return "full";
    case Because::kWaited:
      return "waited";
    case Because::kDeadline:
      return "deadline";
    case Because::kNothingComing:
      return "nothing coming";
  }
  std::abort();
}

}  // namespace gradus::batch
