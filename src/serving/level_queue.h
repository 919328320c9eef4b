// One level's scheduler: what waits for it, which of that runs together and when, what cannot make
// its deadline here. The decisions are batch's and ladder's; this is their state, under the lock of
// the lane that the level runs on.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "batch/arrivals.h"
#include "batch/batchable.h"
#include "batch/closing.h"
#include "batch/queue.h"
#include "batch/size_limit.h"
#include "batch/worthwhile.h"
#include "ladder/estimates.h"
#include "ladder/plan.h"
#include "ladder/predict.h"
#include "serving/tier_share.h"

namespace gradus::serving {

class Lane;
class LevelQueue;

/// What waits in a queue: the entry's fields are set before each push.
class Waiting : public batch::Entry {
 public:
  virtual ~Waiting() = default;
  /// Refused after all: for the sake of a better tier, or because it cannot be run before its
  /// deadline any more. Not waiting any more; no lock is held.
  virtual void evicted(const char* why) = 0;

  std::uint64_t shape = 0;  // of ladder::Size, padded length apart
  Duration usual{};         // set by a push that takes it: until it should be answered here

 private:
  friend class LevelQueue;
  std::shared_ptr<Waiting> self_;            // while it waits
  Duration cost_{};                          // its part of the lane's backlog
  bool on_trial_ = false;                    // let through against the estimates
  std::atomic<LevelQueue*> queue_{nullptr};  // where it waits; set under that queue's lock
};

/// What the estimates know a run by: so many samples of the waiter's kind, padded to this length.
ladder::Size size_of(const Waiting& waiter, std::uint32_t samples, std::int64_t length);
/// The same of inputs that no request brought.
ladder::Size size_of(const batch::Fit& fit, std::span<const TensorView> inputs);
/// Waiting::shape
std::uint64_t shape_of(const batch::Fit& fit, std::span<const TensorView> inputs);

/// What runs together.
struct Batch {
  std::vector<std::shared_ptr<Waiting>> members;  // at least one, best first, one group
  std::int64_t longest = 0;                       // padded length
  std::vector<std::shared_ptr<Waiting>> late;     // met on the way: past their deadline …
  std::vector<std::shared_ptr<Waiting>> doomed;  // … or so near to it that no run would be in time
  bool quick = false;                            // known to be over before anybody could stop it
};

/// What a run was, for the estimates; nothing of runs that tell nothing.
struct Ran {
  ladder::Size size;
  Duration run{};
  bool ok = false;
  bool stopped = false;  // not over after `run`
  bool out_of_memory = false;
};

/// The instance is free again. Once; without a call it is when the run returns.
using Ended = std::function<void(const std::optional<Ran>&)>;

class LevelQueue {
 public:
  struct Options {
    int level = 0;  // whose it is
    batch::QueueLimits limits;
    batch::Rules rules;
    bool join_always = false;              // whether it saves time or not
    std::optional<Duration> batch_target;  // a run that takes longer halves the batch size
    double batch_tier_share = 1;           // of the time that tier `batch` may use
    bool may_run_here = false;             // quick runs need no thread of the lane's
    bool refuses_by_estimate = true;       // what would be too late; else it waits for its deadline
    /// On a thread of the lane's, or in push(). Runs the batch, calls `ended`, and only then
    /// answers the members or sends them elsewhere: who has an answer finds the instance free.
    std::function<void(Batch, const Ended& ended)> run;
  };
  enum class Pushed { kTaken, kFull, kPriorityFull, kTooLate };
  enum class Admission {
    kByEstimate,  // what cannot make its deadline, by a guess or better, is too late
    kNowAndThen,  // no level makes it by its p99: a guess refuses nobody; an idle one that makes it
                  // by its mean tries; else once a second it is tried all the same, so that an
                  // outlier heals
    kAlways,      // whatever the estimates say
  };

  // Any thread.
  /// Never waits for a run; but where the lane is idle and the run is known to take less than
  /// kQuick, it is done before this returns. The waiter may be answered before this returns.
  /// What is not taken is untouched.
  Pushed push(const std::shared_ptr<Waiting>& waiter, Admission admission);
  /// For what was taken before, here or by another level: the queue's bounds do not count.
  Pushed push_again(const std::shared_ptr<Waiting>& waiter, Admission admission);
  /// Cancelled, or too late. False, and nothing happens, if it does not wait here any more.
  bool remove(Waiting& waiter);
  /// What the level could do for the waiter if it were pushed now.
  ladder::Prospect prospect(const Waiting& waiter);
  /// Runs the job on the lane as its next run. One at a time: another one's place is taken.
  void probe(std::function<void()> job);

  /// Tier `batch` may use this level though better ones hold it: it idles, and the share is not
  /// used up.
  bool has_room_for_batch_tier();

  /// A run before the level serves.
  void warm_up(const ladder::Size& size, std::int64_t length, Duration run);
  /// What batches padded to this length take, to be known before the level serves; shortest first.
  void measured(std::int64_t length, std::span<const batch::Measured> sizes);
  /// A good probe took so long.
  void probed(const ladder::Size& size, Duration run);
  /// The p99 that the level would have if `arrivals` a second came to it, by the estimates and what
  /// else its lane does; nothing: nothing was ever run.
  std::optional<Duration> predicted_p99(double arrivals);

  int level() const { return options_.level; }

  struct Load {
    std::size_t waiting = 0;       // requests
    std::uint32_t running = 0;     // runs, probes too
    std::uint32_t batch_size = 1;  // samples that are joined at present, at most
  };
  Load load() const;

  static constexpr Duration kQuick = std::chrono::microseconds(50);  // on average

 private:
  friend class Lane;
  LevelQueue(Lane& lane, Options options);

  Pushed add(const std::shared_ptr<Waiting>& waiter, Admission admission, bool bounded);
  Pushed enqueue(const std::shared_ptr<Waiting>& waiter, Duration cost, TimePoint now, bool bounded,
                 std::vector<std::shared_ptr<Waiting>>& evicted);
  ladder::Prospect prospect(const Waiting& waiter, std::uint32_t together, TimePoint now) const;
  bool in_time(Waiting& waiter, const ladder::Prospect& prospect, Admission admission,
               TimePoint now);
  bool runs_here(const ladder::Estimate& estimate) const;
  Batch take(std::uint32_t samples, TimePoint now, Duration& cost);
  void drop_doomed(Batch& batch, Duration run, TimePoint now);
  std::size_t begin(Duration cost, TimePoint now);  // the seat
  void end(std::size_t seat);
  void learn(const Ran& ran, bool batch_tier, TimePoint now);
  // Without the lock, after begin().
  void run(Batch batch, std::size_t seat);
  void run_probe(const std::function<void()>& job, std::size_t seat);
  std::shared_ptr<Waiting> forget(Waiting& waiter);
  // Of padded length; the nearest above it that was measured stands for others.
  batch::Rules rules(std::int64_t length) const;
  const batch::JoinSize& join_size(std::int64_t length) const;
  std::uint32_t fitting(const batch::Candidate& seen, const Waiting& first, TimePoint now) const;
  std::uint32_t likely_size(const Waiting& waiter) const;

  Lane& lane_;
  const Options options_;
  // All below are under the lane's lock.
  batch::Queue queue_;
  batch::Arrivals arrivals_;
  batch::SizeLimit size_limit_;
  ladder::Estimates estimates_;
  TierShare tier_share_;
  std::function<void()> probe_;
  TimePoint tried_at_{};       // what was too late by the estimates, last time
  std::uint32_t running_ = 0;  // of the lane's instances
  bool closing_ = false;       // somebody waits until that is 0
  ladder::Busy busy_;
  struct Joins {
    std::int64_t length = 0;
    batch::JoinSize size;
  };
  std::vector<Joins> joins_;         // ascending by length
  ladder::Size typical_{};           // of the latest request …
  std::int64_t typical_length_ = 0;  // … and its padded length
};

/// A level's queue as its owner holds it: open as long as this lives. Its end waits for runs that
/// are under way, and must not come on a thread of the lane.
class OpenQueue {
 public:
  OpenQueue() = default;
  OpenQueue(std::shared_ptr<Lane> lane, LevelQueue& queue)
      : lane_(std::move(lane)), queue_(&queue) {}
  OpenQueue(OpenQueue&& other) noexcept
      : lane_(std::move(other.lane_)), queue_(std::exchange(other.queue_, nullptr)) {}
  OpenQueue& operator=(OpenQueue&& other) noexcept {
    std::swap(lane_, other.lane_);
    std::swap(queue_, other.queue_);
    return *this;
  }
  ~OpenQueue();

  LevelQueue* operator->() const { return queue_; }
  LevelQueue& operator*() const { return *queue_; }

 private:
  std::shared_ptr<Lane> lane_;
  LevelQueue* queue_ = nullptr;
};

}  // namespace gradus::serving
