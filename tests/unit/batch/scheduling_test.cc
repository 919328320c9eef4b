// Random arrivals, cancels and batches, held against a model that keeps a plain list and sorts it:
// the same order, nobody lost or handed out twice, no bound passed, nothing expired handed out to
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "batch/closing.h"
#include "unit/batch/item.h"

namespace gradus::batch {
namespace {

using config::Tier;
using namespace std::chrono_literals;

enum class Fate { kWaits, kRefused, kEvicted, kRemoved, kTaken, kExpired };

class Story {
 public:
  explicit Story(std::uint64_t seed) : random_(seed) {
    rules_.max_size = 1 + below(10);
    rules_.max_delay = Duration(below(5'000'000));
    rules_.max_padding_waste = below(60) / 100.0;
    for (std::uint32_t size = 2; size <= rules_.max_size; size += 1 + below(4)) {
      if (below(2) == 0) rules_.preferred_sizes.push_back(size);
    }
  }
  ~Story() { queue_.drain(); }

  void step() {
    now_ += Duration(below(3) == 0 ? below(300'000'000) : below(2'000'000));
    switch (below(8)) {
      case 0:
        return cancel();
      case 1:
      case 2:
        return close();
      default:
        return arrive();
    }
  }

  void check() {
    std::vector<const Item*> expected = waiting();
    std::vector<int> expected_ids;
    std::uint64_t bytes = 0;
    std::uint64_t samples = 0;
    TimePoint oldest = TimePoint::max();
    for (const Item* item : expected) {
      expected_ids.push_back(item->id);
      bytes += item->bytes;
      samples += item->samples;
      oldest = std::min(oldest, item->queued_at);
    }
    ASSERT_EQ(order(queue_, now_), expected_ids);
    ASSERT_EQ(queue_.size(), expected.size());
    ASSERT_EQ(queue_.bytes(), bytes);
    ASSERT_EQ(queue_.samples(), samples);
    ASSERT_EQ(queue_.oldest(), oldest);
    ASSERT_LE(queue_.size(), kLimits.entries + kMostIdle);
    ASSERT_TRUE(bytes <= kLimits.bytes || expected.size() == 1);
    for (const Item& item : items_) ASSERT_EQ(item.waiting(), fate_[item.id] == Fate::kWaits);
  }

  std::map<Fate, int> fates() const {
    std::map<Fate, int> count;
    for (const auto& [id, fate] : fate_) ++count[fate];
    return count;
  }

 private:
  static constexpr std::uint32_t kMostIdle = 2;
  static constexpr QueueLimits kLimits{.entries = 12, .bytes = 3000, .ageing = 1s};

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  int rank(const Item& item) const {
    const auto risen = static_cast<int>((now_ - item.queued_at) / kLimits.ageing);
    return std::max(0, static_cast<int>(item.tier) - risen);
  }

  std::vector<const Item*> waiting() const {
    std::vector<const Item*> all;
    for (const Item& item : items_) {
      if (fate_.at(item.id) == Fate::kWaits) all.push_back(&item);
    }
    std::sort(all.begin(), all.end(), [&](const Item* a, const Item* b) {
      return std::tuple(rank(*a), a->deadline, a->id) < std::tuple(rank(*b), b->deadline, b->id);
    });
    return all;
  }

  void meet(const Entry& entry, Fate fate) {
    const int id = static_cast<const Item&>(entry).id;
    ASSERT_EQ(fate_[id], Fate::kWaits) << "handed out twice: " << id;
    fate_[id] = fate;
  }

  void arrive() {
    const auto tier = static_cast<Tier>(below(3));
    Item& item = items_.emplace_back(static_cast<int>(items_.size()), tier,
                                     now_ + Duration(below(4) * 900'000'000LL + 1));
    item.samples = 1 + below(4);
    item.bytes = below(700);
    item.group = below(3);
    item.length = item.group == 2 ? 1 + below(20) : 0;
    const std::vector<const Item*> before = waiting_but(item);
    const Queue::Pushed pushed = queue_.push(item, now_, below(kMostIdle + 1));
    fate_[item.id] = pushed.taken ? Fate::kWaits : Fate::kRefused;
    if (!pushed.taken) {
      EXPECT_TRUE(pushed.evicted.empty());
      if (tier != Tier::kBatch) {
        EXPECT_FALSE(before.size() < kLimits.entries &&
                     std::accumulate(before.begin(), before.end(), item.bytes,
                                     [](std::uint64_t sum, const Item* other) {
                                       return sum + other->bytes;
                                     }) <= kLimits.bytes)
            << "refused though there was room";
      }
    }
    for (const Entry* evicted : pushed.evicted) {
      EXPECT_EQ(evicted->tier, Tier::kBatch);
      EXPECT_NE(tier, Tier::kBatch);
      meet(*evicted, Fate::kEvicted);
      for (const Item* other : before) {
        EXPECT_TRUE(other->tier != Tier::kBatch || fate_[other->id] == Fate::kEvicted ||
                    other->queued_at <= evicted->queued_at)
            << "a newer one was left";
      }
    }
  }

  std::vector<const Item*> waiting_but(const Item& item) {
    fate_[item.id] = Fate::kRefused;
    return waiting();
  }

  void cancel() {
    if (items_.empty()) return;
    Item& item = items_[below(static_cast<std::uint32_t>(items_.size()))];
    queue_.remove(item);
    if (fate_[item.id] == Fate::kWaits) fate_[item.id] = Fate::kRemoved;
  }

  // What `take` should hand out, by the rules' words.
  std::pair<std::vector<int>, std::vector<int>> expected_batch(std::uint32_t most) const {
    std::vector<const Item*> batch;
    std::vector<int> expired;
    std::uint64_t samples = 0;
    for (const Item* item : waiting()) {
      if (!batch.empty() && samples >= most) break;
      if (!batch.empty() && batch[0]->group == 0) break;
      if (item->deadline <= now_) {
        expired.push_back(item->id);
        continue;
      }
      if (!batch.empty() && item->group != batch[0]->group) continue;
      if (!batch.empty() && samples + item->samples > most) continue;
      batch.push_back(item);
      double real = 0;
      double padded = 0;
      for (const Item* one : batch) {
        real += one->samples * static_cast<double>(one->length);
        padded +=
            one->samples * static_cast<double>(std::max_element(batch.begin(), batch.end(),
                                                                [](const Item* a, const Item* b) {
                                                                  return a->length < b->length;
                                                                })[0]
                                                   ->length);
      }
      if (padded - real > rules_.max_padding_waste * padded) {
        batch.pop_back();
      } else {
        samples += item->samples;
      }
    }
    std::vector<int> batch_ids;
    for (const Item* item : batch) batch_ids.push_back(item->id);
    return {batch_ids, expired};
  }

  void close() {
    Situation situation{now_, below(kMostIdle + 1), below(5), Duration(below(3'000'000))};
    const Candidate candidate = look(queue_, rules_, now_);
    const Decision decision = decide(candidate, rules_, situation);
    if (!decision.close) {
      EXPECT_GT(decision.look_again, now_);
      if (decision.look_again == TimePoint::max()) return;
      situation.now = decision.look_again;
      EXPECT_TRUE(decide(candidate, rules_, situation).close) << "woken for nothing";
      return;
    }
    const auto [batch, expired] = expected_batch(decision.samples);
    const Taken taken = take(queue_, rules_, decision.samples, now_);
    EXPECT_FALSE(taken.entries.empty());
    EXPECT_EQ(ids(taken.entries), batch);
    EXPECT_EQ(ids(taken.expired), expired);
    std::uint32_t samples = 0;
    std::int64_t longest = 0;
    for (const Entry* entry : taken.entries) {
      EXPECT_GT(entry->deadline, now_) << "expired";
      samples += entry->samples;
      longest = std::max(longest, entry->length);
      meet(*entry, Fate::kTaken);
    }
    EXPECT_EQ(taken.samples, samples);
    EXPECT_EQ(taken.longest, longest);
    EXPECT_TRUE(samples <= decision.samples || taken.entries.size() == 1);
    if (decision.because == Because::kPreferred) {
      EXPECT_EQ(samples, candidate.preferred);
    }
    for (const Entry* entry : taken.expired) {
      EXPECT_LE(entry->deadline, now_);
      meet(*entry, Fate::kExpired);
    }
  }

  std::mt19937_64 random_;
  Rules rules_;
  std::deque<Item> items_;
  std::map<int, Fate> fate_;
  Queue queue_{kLimits};
  TimePoint now_ = at(1h);
};

TEST(Scheduling, KeepsToItsRulesInRandomStories) {
  std::map<Fate, int> seen;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Story story(seed);
    for (int step = 0; step < 150; ++step) {
      story.step();
      story.check();
      if (::testing::Test::HasFailure()) return;
    }
    for (const auto& [fate, count] : story.fates()) seen[fate] += count;
  }
  for (const Fate fate :
       {Fate::kRefused, Fate::kEvicted, Fate::kRemoved, Fate::kTaken, Fate::kExpired}) {
    EXPECT_GT(seen[fate], 500) << static_cast<int>(fate) << ": the stories are too tame";
  }
}

}  // namespace
}  // namespace gradus::batch
