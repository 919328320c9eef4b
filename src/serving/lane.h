// A device's place of work: so many runs at once, taken from the queues of all levels that share
// it. The best tier goes first, then whoever has waited longest, so that no model starves another.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "config/tier.h"
#include "serving/level_queue.h"

namespace gradus::serving {

class Lane {
 public:
  /// @param name for thread names, at most 15 bytes are shown
  /// @param instances how many runs at once, >= 1; as many threads
  Lane(std::string name, int instances, const Clock& clock);
  /// stop(), and runs under way are finished.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// From now on nothing is taken or begun; what waits is destroyed unrun. Once for all lanes of
  /// whoever owns several, before the first of them ends: what fails on one goes on to another.
  void stop();

  /// A level's queue. Any thread.
  LevelQueue& open(LevelQueue::Options options);
  /// The queue is gone when this returns: what waits in it is destroyed unrun, what runs is waited
  /// for. Any thread but the lane's.
  void close(LevelQueue& queue);

  /// From now on so many runs at once: a device of the lane's was lost, or is back. More that are
  /// under way go on. Any thread.
  /// @param runs 1..instances
  void allow(std::uint32_t runs);
  std::uint32_t allowed() const;

 private:
  friend class LevelQueue;

  struct Choice {
    LevelQueue* queue = nullptr;  // null: nothing is due
    std::uint32_t samples = 0;    // 0: its probe is due
    TimePoint look_again = TimePoint::max();
  };

  void work();
  Choice choose(TimePoint now) REQUIRES(mutex_);
  /// Until a request of this tier that comes now would run.
  Duration wait_of(config::Tier tier, TimePoint now) const REQUIRES(mutex_);
  /// An instance for a run that should end then; which one.
  std::size_t take_seat(TimePoint begun, TimePoint ends) REQUIRES(mutex_);
  void free_seat(std::size_t seat) REQUIRES(mutex_);
  std::uint32_t idle() const REQUIRES(mutex_) {
    return allowed_ > running_ ? allowed_ - running_ : 0;
  }
  void wake_one() REQUIRES(mutex_);

  const std::string name_;
  const std::uint32_t instances_;
  const Clock& clock_;
  mutable Mutex mutex_;  // of the queues' state too
  CondVar ready_;
  CondVar closed_;  // a queue that is to be closed runs nothing any more
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::uint32_t sleeping_ GUARDED_BY(mutex_) = 0;  // threads that wait for something to do
  std::uint32_t allowed_ GUARDED_BY(mutex_);       // to run at once; of the instances
  std::uint32_t running_ GUARDED_BY(mutex_) = 0;
  struct Seat {                          // of a run
    TimePoint begun = TimePoint::max();  // free
    TimePoint ends{};                    // predicted
  };
  std::vector<Seat> seats_ GUARDED_BY(mutex_);                         // one an instance
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;                         // in all queues
  std::size_t probes_ GUARDED_BY(mutex_) = 0;                          // of all queues, to be run
  std::array<Duration, config::kTiers> backlog_ GUARDED_BY(mutex_){};  // predicted, of what waits
  std::vector<std::unique_ptr<LevelQueue>> queues_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace gradus::serving
