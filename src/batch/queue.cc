#include "batch/queue.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace gradus::batch {
namespace {

std::size_t index(config::Tier tier) { return static_cast<std::size_t>(tier); }

[[noreturn]] void broken(const char* what, std::size_t count) {
  std::fprintf(stderr, "batch queue: %s (%zu)\n", what, count);
  std::abort();
}

}  // namespace

Entry::~Entry() {
  if (waiting()) broken("an entry ends while it waits; samples", samples);
}

bool Queue::Better::operator()(const Entry& a, const Entry& b) const {
  return std::tie(a.rank_, a.late_, a.deadline, a.number_) <
         std::tie(b.rank_, b.late_, b.deadline, b.number_);
}

bool Queue::Sooner::operator()(const Entry& a, const Entry& b) const {
  return std::tie(a.turns_at_, a.number_) < std::tie(b.turns_at_, b.number_);
}

Queue::~Queue() {
  if (!empty()) broken("ends while entries wait", size());
}

bool Queue::fits(const Use& used, const Entry& entry, std::size_t most, std::uint64_t most_bytes) {
  const bool room = used.bytes <= most_bytes && entry.bytes <= most_bytes - used.bytes;
  return used.entries < most && (used.entries == 0 || room);
}

Queue::Pushed Queue::push(Entry& entry, TimePoint now, std::uint32_t idle) {
  Pushed pushed;
  if (const auto waiting = of_priority_.find(entry.priority);
      entry.most_of_priority > 0 && waiting != of_priority_.end() &&
      waiting->second >= std::size_t{entry.most_of_priority} + idle) {
    pushed.priority_full = true;
    return pushed;
  }
  if (entry.tier == config::Tier::kBatch) {
    const auto share = [&](auto bound) {
      return static_cast<decltype(bound)>(limits_.batch_share * static_cast<double>(bound));
    };
    const auto most = std::max<std::size_t>(1, share(limits_.entries)) + idle;
    if (!fits(batch_, entry, most, share(limits_.bytes))) return pushed;
  }
  if (!make_room(entry, limits_.entries + idle, pushed.evicted)) return pushed;
  push_anyway(entry, now);
  pushed.taken = true;
  return pushed;
}

// Evicts all that it takes, or none.
bool Queue::make_room(const Entry& entry, std::size_t most, std::vector<Entry*>& evicted) {
  Use left = all_;
  if (fits(left, entry, most, limits_.bytes)) return true;
  if (entry.tier == config::Tier::kBatch) return false;
  auto& came_as_batch = arrivals_[index(config::Tier::kBatch)];
  for (auto counts_as = came_as_batch.rbegin(); counts_as != came_as_batch.rend(); ++counts_as) {
    for (auto newest = counts_as->rbegin(); newest != counts_as->rend(); ++newest) {
      evicted.push_back(&*newest);
      --left.entries;
      left.bytes -= newest->bytes;
      if (!fits(left, entry, most, limits_.bytes)) continue;
      for (Entry* each : evicted) remove(*each);
      return true;
    }
  }
  evicted.clear();
  return false;
}

void Queue::push_anyway(Entry& entry, TimePoint now) {
  if (entry.waiting()) broken("an entry is pushed twice; samples", entry.samples);
  entry.queued_at = now;
  entry.rank_ = entry.tier;
  entry.late_ = false;
  entry.number_ = ++pushed_;
  order_.insert(entry);
  if (entry.due != TimePoint::max()) {
    entry.turns_at_ = entry.due;
    turns_.insert(entry);
  }
  if (entry.most_of_priority > 0) ++of_priority_[entry.priority];
  arrivals_[index(entry.tier)][index(entry.rank_)].push_back(entry);
  samples_ += entry.samples;
  for (Use* use : {&all_, entry.tier == config::Tier::kBatch ? &batch_ : nullptr}) {
    if (use == nullptr) continue;
    ++use->entries;
    use->bytes += entry.bytes;
  }
}

void Queue::remove(Entry& entry) {
  if (!entry.waiting()) return;
  order_.erase(order_.iterator_to(entry));
  if (entry.by_turn_.is_linked()) turns_.erase(turns_.iterator_to(entry));
  if (entry.most_of_priority > 0) {
    const auto waiting = of_priority_.find(entry.priority);
    if (--waiting->second == 0) of_priority_.erase(waiting);
  }
  auto& arrivals = arrivals_[index(entry.tier)][index(entry.rank_)];
  arrivals.erase(arrivals.iterator_to(entry));
  samples_ -= entry.samples;
  for (Use* use : {&all_, entry.tier == config::Tier::kBatch ? &batch_ : nullptr}) {
    if (use == nullptr) continue;
    --use->entries;
    use->bytes -= entry.bytes;
  }
}

std::vector<Entry*> Queue::drain() {
  std::vector<Entry*> all;
  all.reserve(size());
  while (!empty()) {
    all.push_back(&*order_.begin());
    remove(*all.back());
  }
  return all;
}

// Within one list all came as one tier and count as one, so the oldest is the next to rise.
void Queue::age(TimePoint now) {
  turn(now);
  for (std::size_t tier = 1; tier < config::kTiers; ++tier) {
    for (std::size_t rank = tier; rank > 0; --rank) {
      Arrivals& from = arrivals_[tier][rank];
      const auto wait = static_cast<Duration::rep>(tier - rank + 1) * limits_.ageing;
      while (!from.empty() && now - from.front().queued_at >= wait) {
        Entry& entry = from.front();
        from.pop_front();
        order_.erase(order_.iterator_to(entry));
        entry.rank_ = static_cast<config::Tier>(rank - 1);
        order_.insert(entry);
        arrivals_[tier][rank - 1].push_back(entry);
      }
    }
  }
}

// At its `due` an entry is late, and after one more ageing in time again.
void Queue::turn(TimePoint now) {
  while (!turns_.empty() && turns_.begin()->turns_at_ <= now) {
    Entry& entry = *turns_.begin();
    turns_.erase(turns_.begin());
    order_.erase(order_.iterator_to(entry));
    entry.late_ = !entry.late_;
    order_.insert(entry);
    if (!entry.late_) continue;
    entry.turns_at_ = entry.due + limits_.ageing;
    turns_.insert(entry);
  }
}

std::ranges::subrange<Queue::Order::iterator> Queue::in_order(TimePoint now) {
  age(now);
  return {order_.begin(), order_.end()};
}

Entry* Queue::first(TimePoint now) {
  age(now);
  return empty() ? nullptr : &*order_.begin();
}

TimePoint Queue::oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& came_as : arrivals_) {
    for (const Arrivals& counts_as : came_as) {
      if (!counts_as.empty()) oldest = std::min(oldest, counts_as.front().queued_at);
    }
  }
  return oldest;
}

}  // namespace gradus::batch
