// Keeps a device's worker alive: starts it, watches it, starts it again after it was lost, loads
// everything anew, and tells the levels on it what became of them.
//
// | state | leaves it when |
// | --- | --- |
// | kIdle: nothing is loaded, and no process runs | load() -> kStarting |
// | kStarting: a process comes up, its levels are loaded and probed | -> kRunning, or lost |
// | kRunning | lost, stop(); nothing is loaded in it any more -> kIdle |
// | kWaiting: lost; the back-off runs | it is over -> kStarting |
// | kCrashLoop: as kWaiting, after many deaths in short time | the same, after loop_pause |
// | kStopped | never |
//
// A worker in which every run has failed for some time is replaced, unless a sample of one of its
// levels runs there: what is broken about one model alone costs the others nothing.
//
// A worker that does not die after SIGKILL (it hangs in a driver, uninterruptible) is abandoned: it
// is counted, looked after until it does, and another takes its place. A level that cannot be
// loaded again where others can is tried again, with back-off, as long as it is wanted; but for a
// fault of the configuration (runtime::is_configuration) not in the same worker. One whose file is
// another than at the first load would answer as another model: it waits until that file is back.
//
// A level that is being loaded again, or probed, when its worker is lost may be why: it leaves,
// where there is another place for it (LevelHooks::suspect; docs/adr/0013-suspect-loads.md).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/load.h"
#include "worker/file_identity.h"
#include "worker/isolated_session.h"
#include "worker/restart_policy.h"
#include "worker/worker.h"

namespace gradus::worker {

enum class WorkerState { kIdle, kStarting, kRunning, kWaiting, kCrashLoop, kStopped };
std::string_view to_string(WorkerState state);  // `idle`, `starting`, …

/// What people are shown.
struct WorkerStatus {
  std::string device;
  WorkerState state = WorkerState::kIdle;
  std::optional<pid_t> pid;    // while one runs
  std::uint32_t restarts = 0;  // processes started beyond the first
  std::optional<Loss> last_fault;
  Duration uptime{};  // of the present process
  int abandoned = 0;  // processes that did not die
};

struct Seat;

/// What a level hears, from the supervisor's thread, without a lock held.
struct LevelHooks {
  std::function<void(const Loss&)> lost;  // hard: nothing of it runs any more
  std::function<void()> back;             // loaded in a fresh worker, and a run succeeded there
  /// Called after lost(), when the level was being loaded again beside others; this supervisor has
  /// given it up, and another may adopt() it. Null: it stays.
  std::function<void(Seat)> suspect;
};

/// A level that is loaded, and loaded again after each loss, in one supervisor's worker.
struct Seat {
  std::weak_ptr<IsolatedSession> session;
  LevelHooks hooks;
  std::vector<SeenFile> files;  // just before the first load
  Duration load_limit{};        // to be loaded again
};

class Supervisor {
 public:
  struct Options {
    Worker::Options worker;
    RestartPolicy restart;
    std::uint64_t seed = 1;                            // of the jitter
    Duration load_limit = std::chrono::minutes(10);    // for one model …
    Duration reload_limit = std::chrono::seconds(30);  // … again: ten times as long, at least this
    Duration ping_every = std::chrono::seconds(1);
    Duration ping_limit = std::chrono::seconds(10);  // no answer for so long: hung
    Duration kill_limit = std::chrono::seconds(2);   // not dead after so long: abandoned
    Duration trim_every = std::chrono::seconds(30);  // Worker::trim()
  };

  Supervisor(Options options, const Clock& clock);
  /// stop().
  ~Supervisor();

  /// As runtime::OrtRuntime::load, in the device's worker, which is started if need be; one in
  /// which nothing is loaded ends, so that a later try meets a fresh one. Any thread; blocks. The
  /// backend outlives workers (IsolatedSession) but not this object.
  /// @param target of one run of the level
  /// @return kWorkerLost: its worker was lost meanwhile, and this load may be why
  Result<runtime::Loaded> load(const runtime::LoadSpec& spec, Duration target, LevelHooks hooks);

  /// Takes in a level that another has parted with; its loads may take as long as a first one, and
  /// it leaves no more. Any thread; returns at once.
  void adopt(Seat seat);

  WorkerStatus status() const;

  /// Ends the worker in an orderly way, one that owes an answer at once; levels hear nothing of it.
  /// Once; then nothing can be loaded.
  void stop();

 private:
  struct Missing {  // a seat that could not be loaded in this worker
    Seat seat;
    int failures = 1;
    TimePoint again{};
    bool file_is_another = false;  // only files are looked at
  };

  Result<runtime::Loaded> load_in_worker(const runtime::LoadSpec& spec, Duration target,
                                         LevelHooks hooks);
  void watch();        // the thread
  bool wait_wanted();  // false: stopping
  void come_up();
  /// @return kNotFound: a file of it is another; kWorkerLost: as load(); kUnavailable: all else
  Result<void> reload(const std::shared_ptr<Worker>& worker, const Seat& seat);
  static bool may_succeed_later(const Seat& seat, const Error& error);
  void run_until_unwanted();             // lost, stopping, or nobody's
  void tell_unanswered(Worker& worker);  // a ping
  bool begin_blocking();                 // false: stop() was called
  void end_blocking();
  void retry_missing(const std::shared_ptr<Worker>& worker);
  void try_failing(Worker& worker);
  TimePoint next_retry() const;
  double chance();
  void abandon(std::shared_ptr<Worker> worker);
  void reap_abandoned();
  void after_loss(const Loss& loss);
  void part_with_suspect();
  void wait_until(TimePoint end);
  void set_state(WorkerState state);
  bool usable() const REQUIRES(mutex_);  // there is a worker, as far as is known
  void drop_expired() REQUIRES(mutex_);  // seats that nobody has any more
  bool wanted() REQUIRES(mutex_);        // something is loaded, or being loaded
  bool still_used() const;
  bool retire();  // true: ended a worker that nobody wants
  std::vector<Seat> seats();
  void wake();
  void drain_wake();

  const Options options_;
  const Clock& clock_;
  const Fd wake_;  // eventfd: something changed
  const Fd end_;   // eventfd: readable from stop() on
  // Of the thread.
  RestartState restart_;
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<Worker>> abandoned_;
  std::vector<Missing> missing_;
  std::optional<Seat> suspect_;  // whose load this worker was lost with

  mutable Mutex mutex_;
  CondVar changed_;
  WorkerState state_ GUARDED_BY(mutex_) = WorkerState::kIdle;
  int loading_ GUARDED_BY(mutex_) = 0;  // calls of load()
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool blocking_ GUARDED_BY(mutex_) = false;  // the thread waits for a load, or a run
  std::shared_ptr<Worker> worker_ GUARDED_BY(mutex_);
  std::vector<Seat> seats_ GUARDED_BY(mutex_);
  std::vector<Seat> adopted_ GUARDED_BY(mutex_);  // of those, not seen by the thread so far
  std::uint32_t starts_ GUARDED_BY(mutex_) = 0;
  TimePoint up_since_ GUARDED_BY(mutex_){};
  std::optional<Loss> last_fault_ GUARDED_BY(mutex_);
  int abandoned_count_ GUARDED_BY(mutex_) = 0;

  std::jthread thread_;  // spawns the workers, which die with it (Process::spawn)
};

}  // namespace gradus::worker
