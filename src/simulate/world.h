// The simulated server: requests walk the ladder as they do in serving (serving/in_flight.h),
// levels run, fail and come back as the scenario says, the prober makes its rounds, all of it as
// events in order of their time. The policy, the estimates and the plans are the server's own code.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "config/policy_config.h"
#include "ladder/arrival_rate.h"
#include "ladder/plan.h"
#include "ladder/route.h"
#include "ladder/state.h"
#include "simulate/arrivals.h"
#include "simulate/faults.h"
#include "simulate/lane.h"
#include "simulate/outcome.h"
#include "simulate/random.h"
#include "simulate/rule.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

class World {
 public:
  /// @param scenario outlives it
  /// @param policy as validated by config
  World(const Scenario& scenario, const config::PolicyConfig& policy, Rule rule);

  /// Until the last request has ended. Once.
  Outcome run();

 private:
  enum class Kind : std::uint8_t { kArrival, kDeadline, kHedge, kRunEnds, kRound, kFault };
  struct Event {
    TimePoint at;
    std::uint64_t order;  // of those at one time
    Kind kind;
    std::uint32_t index;  // of a request, run or level
    std::uint32_t life;   // of the request or run
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Request {
    TimePoint arrival{};
    TimePoint deadline{};
    std::uint32_t shape_number = 0;
    std::uint64_t shape = 0;
    ladder::Route route;
    std::uint32_t life = 0;
    std::uint32_t tried = 0;             // bits by place in the route
    bool ran = false;                    // on a level already
    bool overloaded = false;             // a level refused it for its queue or its estimate
    std::array<Attempt*, 2> attempts{};  // that wait or run; null: none
    TimePoint hedge_at{};                // when to look at that next
  };
  struct Run {
    LevelLane* level = nullptr;  // null: not in use
    std::uint32_t life = 0;
    TimePoint begun{};
    TimePoint ends{};
    Duration queue{};  // the shortest wait in the batch
    std::size_t seat = 0;
    std::uint32_t samples = 1;
    bool probe = false;
    bool ok = true;
    bool hangs = false;
    std::vector<Attempt*> members;
  };
  /// What runs of a level are like, beyond its queue.
  struct Machine {
    RunTimes times;
    Faults faults;
    Random random;
    bool alternates = false;                // the next run of an alternating fault fails
    TimePoint busy_until{};                 // runs and probes
    std::vector<std::uint8_t> shapes_seen;  // runs of each shape, up to 2
    TimePoint restarts_until{};             // its worker comes back then, if nothing is amiss
    TimePoint changes_at{};                 // the next change of its faults that is an event
  };

  void warm_up();
  void push(TimePoint at, Kind kind, std::size_t index, std::uint32_t life = 0);
  void handle(const Event& event);
  void expect_arrival();

  // Requests (world_requests.cc).
  void arrive();
  void go_on(std::uint32_t index);
  bool try_levels(std::uint32_t index, Admission admission);
  bool place_on(std::uint32_t index, std::size_t place, Admission admission, bool hedges);
  void give_up(std::uint32_t index);
  LevelLane* untried(const Request& request, std::size_t place) const;
  bool may_hedge(const Request& request, const Attempt& from, std::size_t place) const;
  void look_at(std::uint32_t index, TimePoint hedge_at);
  void hedge(std::uint32_t index);
  void start_hedge(std::uint32_t index, Attempt& from, std::size_t place);
  void expire(std::uint32_t index);
  void finish(std::uint32_t index, Ending ending, std::size_t level);
  Attempt& add_attempt(std::uint32_t index, LevelLane& level);
  void end_attempt(Attempt& attempt);
  bool wanted(const Attempt& attempt) const;
  void failed(Attempt& attempt);

  // Runs (world_runs.cc).
  void dispatch(Lane& lane);
  void start_run(std::uint32_t index);
  void start_probe(LevelLane& level);
  void begin(Run& run, std::uint32_t index, std::uint32_t shape);
  void end_run(std::uint32_t index);
  void end_probe(Run& run);
  static ladder::Size size_of(const Run& run);
  void tell_outcome(const Run& run, bool ok, bool stopped);
  void stop_if_unwanted(std::uint32_t index);
  std::uint32_t take_run();
  void free_run(std::uint32_t index);
  void fault_changes(std::size_t level);
  void lose(LevelLane& level, const std::string& reason, Duration restart);
  void bring_up(LevelLane& level);
  void make_round();

  template <class Told>
  void tell(const Told& told);
  Machine& machine(const LevelLane& of) { return machines_[of.index()]; }
  Duration since_start(TimePoint at) const { return at - kStart; }

  static constexpr TimePoint kStart{std::chrono::hours(1000)};

  const Scenario& scenario_;
  const Rule rule_;
  Outcome outcome_;
  TimePoint now_ = kStart;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<LevelLane>> levels_;
  std::vector<Machine> machines_;
  ladder::State state_;
  ladder::ArrivalRate rate_;
  ladder::HedgeBudget budget_;
  std::uint64_t arrived_ = 0;

  ArrivalStream arrivals_;
  Arrival arrival_;  // the next one
  bool more_come_ = true;
  std::size_t living_ = 0;  // requests
  std::deque<Request> requests_;
  std::vector<std::uint32_t> free_requests_;
  std::deque<Attempt> attempts_;
  std::vector<Attempt*> free_attempts_;
  std::deque<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
};

}  // namespace gradus::simulate
