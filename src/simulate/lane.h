// One device's queues and runs, as serving keeps them (serving/level_queue.h, serving/lane.h): who
// waits for which level, what runs next and with whom, and what could be in time. The decisions are
// batch's and ladder's; this is their state. Time comes in.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "batch/closing.h"
#include "batch/queue.h"
#include "batch/worthwhile.h"
#include "ladder/estimates.h"
#include "ladder/plan.h"
#include "ladder/predict.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

class LevelLane;

/// A request on one level: it waits there, or runs.
struct Attempt : batch::Entry {
  std::uint32_t request = 0;  // number of its place …
  std::uint32_t life = 0;     // … and whose it was then
  std::uint32_t shape_number = 0;
  std::uint64_t shape = 0;  // hash of it
  LevelLane* level = nullptr;
  std::uint32_t run = 0;  // that it is part of, if it does not wait
  bool on_trial = false;  // let through against the estimates
  bool hedges = false;    // begun beside another one that ran
  Duration usual{};       // as of its push: until it should be answered here
  Duration cost{};        // its part of the device's backlog
};

/// Whether a level takes what may be too late: as LevelQueue::Admission.
enum class Admission { kByEstimate, kNowAndThen, kAlways };
enum class Pushed { kTaken, kFull, kTooLate };

/// What the levels of one device share.
struct Lane {
  struct Seat {
    bool taken = false;
    TimePoint ends{};  // predicted
  };
  std::vector<Seat> seats;  // one an instance
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  Duration backlog{};  // predicted, of what waits
  std::vector<LevelLane*> levels;

  std::uint32_t instances() const { return static_cast<std::uint32_t>(seats.size()); }
  std::uint32_t idle() const { return instances() - running; }
  /// Until a request that comes now would run. A run that is overdue is given as long again.
  Duration wait(TimePoint now) const;
  /// One is free.
  std::size_t take_seat(TimePoint ends);
  void free_seat(std::size_t seat);
};

class LevelLane {
 public:
  /// @param level outlives it, as does the lane
  /// @param refuses what would be too late; else that waits for its deadline
  LevelLane(std::size_t index, const Level& level, Lane& lane, std::uint32_t max_queue_size,
            bool refuses);

  std::size_t index() const { return index_; }
  const Level& level() const { return level_; }
  Lane& lane() const { return lane_; }

  void warm_up(ladder::Size size, Duration run) { estimates_.warm_up(size, run); }
  void probed(Duration run) { estimates_.probe({1, 0}, run); }
  /// A run of live traffic. @param stopped it was not over after `run`
  void learn(ladder::Size size, Duration run, bool stopped, TimePoint now);

  /// What it could do for such a request that came now.
  ladder::Prospect prospect(std::uint64_t shape, TimePoint now) const;
  Pushed push(Attempt& attempt, Admission admission, bool bounded, TimePoint now);
  void remove(Attempt& attempt);
  /// Nothing waits here afterwards.
  void drain(std::vector<Attempt*>& out);

  /// Whose turn it is among a lane's levels: the least goes first; nothing: none waits.
  std::optional<std::pair<config::Tier, TimePoint>> rank(TimePoint now);

  /// Takes what runs next; some instance is idle. What is past its deadline is left out.
  /// @param members empty: there they come; none: nothing may be run
  /// @param doomed empty: there those come for whom no run would be in time
  /// @return the run's predicted time
  Duration take(std::vector<Attempt*>& members, std::vector<Attempt*>& doomed, TimePoint now);
  /// What its p99 would be if so many requests a second came.
  std::optional<Duration> predicted_p99(double arrivals, TimePoint now);

  // Of the prober and the worker's supervisor.
  bool up = true;          // can be run
  bool probe_due = false;  // as the next run
  bool probing = false;
  TimePoint next_probe{};
  std::uint32_t own_runs = 0;  // of the lane's …
  std::uint32_t running = 0;   // … and the requests in them

 private:
  std::uint32_t likely_size() const;
  std::uint32_t fitting(const batch::Candidate& seen, const Attempt& first, TimePoint now) const;
  void forget(Attempt& attempt);

  const std::size_t index_;
  const Level& level_;
  Lane& lane_;
  const bool refuses_;
  batch::Queue queue_;
  batch::Rules rules_;
  ladder::Estimates estimates_;
  std::uint64_t typical_ = 0;  // shape
  TimePoint tried_at_{};       // what was too late by the estimates, last time
  ladder::Busy busy_;
};

}  // namespace gradus::simulate
