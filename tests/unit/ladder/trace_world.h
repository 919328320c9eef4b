// A simulated server around one ladder: levels that do as their fault traces say, requests that
// walk their routes, probes, reloads, an operator. It checks the policy's bounds at every step.
//
// A request tries its route one level after the other; when half its time is over and it has no
// answer, it starts the next ones beside what still runs, as serving does by hedging.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "ladder/route.h"
#include "ladder/status.h"
#include "ladder/step.h"
#include "trace_faults.h"

namespace gradus::ladder {

/// What happened in traces, to show that they reach what they are to test.
struct TraceTotals {
  std::map<Cause, std::uint64_t> moves;
  std::uint64_t requests = 0;
  std::uint64_t guaranteed = 0;  // requests that had to be answered in time
  std::uint64_t promotions_at_cap = 0;
  std::uint64_t most_promotions = 0;      // to one level in 600 s
  std::uint64_t forced_up = 0;            // to a better level without a hold
  std::uint64_t cooldown_ended_open = 0;  // ticks that found the current level's breaker open
  std::uint64_t late_promotions = 0;      // of levels whose first load had failed
  std::uint64_t dead_when_idle = 0;   // ticks with a current level of which only probes can tell
  std::uint64_t could_not_carry = 0;  // falls past a better level, for its prediction
};

class TraceWorld {
 public:
  TraceWorld(std::uint64_t seed, TraceTotals& totals);

  /// Runs the trace. Empty: every bound held; else what did not, with the transitions before.
  std::string run();

 private:
  enum class Kind { kArrival, kOutcome, kProbeDone, kTick, kModeChange, kLoaded, kOperator };
  struct Event {
    TimePoint at;
    std::uint64_t order;  // of those at one time
    Kind kind;
    std::size_t level;
    bool ok;
    TimePoint begun;
    Duration queue;
    std::uint64_t bucket;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Attempt {
    TimePoint ends;
    bool ok;
  };
  struct SimLevel {
    int number;
    Duration target;
    Duration service;
    Duration load_time;
    bool accelerator;  // probed when idle
    LevelTrace trace;
    bool up = false;  // loaded, and the ladder was told
    bool disabled = false;
    bool loading = false;
    bool probing = false;
    bool was_up = false;
    bool missed = false;      // its first load failed
    TimePoint good_at{};      // last answer or good probe
    TimePoint counts_from{};  // what was begun before its last return tells nothing
    TimePoint bad_at{};       // last thing that breaks a hold
    std::vector<TimePoint> promotions;
  };

  void add_levels();
  void push(Event event);
  void handle(const Event& event);
  void arrive(TimePoint at);
  void plan(const Route& route, TimePoint at);
  void start_probes(TimePoint at);
  void predict();
  void change_mode(std::size_t level, TimePoint at);
  void lose(std::size_t level, TimePoint at);
  void bring_up(std::size_t level, TimePoint at);
  void operate(TimePoint at);
  Attempt attempt(SimLevel& level, TimePoint at, bool probe);
  Duration service_of(const SimLevel& level, Mode mode) const;
  bool must_answer(const SimLevel& level, TimePoint at, Duration timeout, bool time_was_lost) const;

  void note_end(SimLevel& level, const Event& event);
  void note(std::optional<Transition> move);
  void check_promotion(std::size_t to, TimePoint at);
  void check_landing(const Transition& move, std::size_t from, std::size_t to);
  void check_soft(TimePoint at);
  void check_state(TimePoint at);
  void check_tick(TimePoint at);
  void check_idle(TimePoint at);
  void broken(TimePoint at, const std::string& bound);

  Random random_;
  TraceTotals& totals_;
  TimePoint end_;
  std::vector<SimLevel> levels_;
  State state_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;

  Duration gap_;          // mean time between requests
  Duration fails_after_;  // how long a failure takes
  bool adversary_;        // strikes a level that was just promoted
  bool queues_;           // runs wait, and there are predictions
  bool hurried_;          // requests have no time for the current level
  std::vector<Transition> moves_;
  std::optional<TimePoint> last_fall_;
  TimePoint last_move_;
  std::string fault_;
};

}  // namespace gradus::ladder
