// One level's waiting requests, bounded by count and bytes, best first: tier, then who is not late,
// then earliest deadline, then arrival. Who waits long rises: after each `ageing` an entry counts
// as the next better tier, and one that has been late for that long as in time again. The queue
// owns nothing, and allocates for an entry at most the count of its priority.
#pragma once
#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <vector>

#include "base/clock.h"
#include "config/tier.h"

namespace gradus::batch {

/// What a waiting request shows the queue; derive from it. It stays where it is, and its fields as
/// they are, while it waits; its end while waiting is a broken invariant.
class Entry {
 public:
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  config::Tier tier = config::Tier::kStandard;
  TimePoint deadline = TimePoint::max();  // from then on it may not run any more
  TimePoint due = TimePoint::max();       // from then on it is late: it lets others go first
  std::uint32_t samples = 1;              // along the batch dimension, >= 1
  std::uint64_t bytes = 0;                // of its inputs
  std::uint64_t group = 0;                // only equals run together; 0: never with another
  std::int64_t length = 0;                // of the padded dimension; 0 where nothing is padded
  std::uint64_t priority = 0;             // whose entries …
  std::uint32_t most_of_priority = 0;     // … may be so many; 0: as many as the queue takes
  TimePoint queued_at{};                  // set by push

  bool waiting() const { return by_order_.is_linked(); }
  /// The tier that it counts as by its age; only while it waits.
  config::Tier counts_as() const { return rank_; }

 private:
  friend class Queue;
  config::Tier rank_{};  // the tier that it counts as, by age
  bool late_ = false;
  TimePoint turns_at_{};  // late, or in time again; while it is in turns_
  std::uint64_t number_ = 0;
  boost::intrusive::set_member_hook<> by_order_;
  boost::intrusive::set_member_hook<> by_turn_;
  boost::intrusive::list_member_hook<> by_arrival_;
};

struct QueueLimits {
  std::size_t entries = 128;        // that may wait, >= 1
  std::uint64_t bytes = 256 << 20;  // of theirs; what comes to an empty queue is taken at any size
  double batch_share = 0.75;        // of both bounds that tier kBatch may use, 0..1; one always may
  Duration ageing = std::chrono::seconds(1);  // > 0
};

class Queue {
  struct Better {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  struct Sooner {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  using Order = boost::intrusive::set<
      Entry, boost::intrusive::compare<Better>,
      boost::intrusive::member_hook<Entry, boost::intrusive::set_member_hook<>, &Entry::by_order_>>;
  using Turns = boost::intrusive::set<
      Entry, boost::intrusive::compare<Sooner>,
      boost::intrusive::member_hook<Entry, boost::intrusive::set_member_hook<>, &Entry::by_turn_>>;
  using Arrivals = boost::intrusive::list<
      Entry, boost::intrusive::member_hook<Entry, boost::intrusive::list_member_hook<>,
                                           &Entry::by_arrival_>>;

 public:
  struct Pushed {
    bool taken = false;           // false: full …
    bool priority_full = false;   // … of its priority
    std::vector<Entry*> evicted;  // no longer waiting, the caller refuses them; newest first
  };

  explicit Queue(const QueueLimits& limits) : limits_(limits) {}
  /// Nothing may wait any more.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Full when `limits.entries + idle` wait, or `most_of_priority + idle` of its priority: `idle`
  /// instances take theirs at once, whether their threads have woken or not. An entry of a better
  /// tier then evicts waiting kBatch entries (kBatch by what they came as), the newest first, if
  /// that makes enough room.
  /// @param entry not waiting
  /// @param now not before that of earlier calls by more than a thread's delay
  Pushed push(Entry& entry, TimePoint now, std::uint32_t idle);

  /// For an entry that has waited elsewhere or has to be tried again: always taken.
  void push_anyway(Entry& entry, TimePoint now);

  /// It passed its deadline, was cancelled or was taken. Nothing happens if it is not waiting.
  void remove(Entry& entry);

  /// All that wait, in order; none waits afterwards.
  std::vector<Entry*> drain();

  /// The waiting entries, best first, aged to `now`. Valid until the queue next changes, except for
  /// removed entries other than the current one.
  std::ranges::subrange<Order::iterator> in_order(TimePoint now);

  /// The best; null when none waits.
  Entry* first(TimePoint now);

  bool empty() const { return order_.empty(); }
  std::size_t size() const { return order_.size(); }
  std::uint64_t bytes() const { return all_.bytes; }
  std::uint64_t samples() const { return samples_; }
  /// The longest wait's begin; TimePoint::max() when none waits.
  TimePoint oldest() const;

 private:
  struct Use {
    std::size_t entries = 0;
    std::uint64_t bytes = 0;
  };
  static bool fits(const Use& used, const Entry& entry, std::size_t most, std::uint64_t most_bytes);
  void age(TimePoint now);
  void turn(TimePoint now);
  bool make_room(const Entry& entry, std::size_t most, std::vector<Entry*>& evicted);

  const QueueLimits limits_;
  Order order_;
  // By the tier they came as, then by the tier they count as: each oldest first.
  std::array<std::array<Arrivals, config::kTiers>, config::kTiers> arrivals_;
  Turns turns_;  // those with a `due`, until they are in time again
  std::map<std::uint64_t, std::size_t> of_priority_;  // waiting, of those that are bounded
  Use all_;
  Use batch_;  // those that came as kBatch
  std::uint64_t samples_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace gradus::batch
