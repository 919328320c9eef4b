// The server's side of one worker process, from its start to its death. When it dies, hangs or says
// what it should not, everybody who waits for it is told at once, and it is killed.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "runtime/load.h"
#include "tensor/tensor.h"
#include "worker/channel.h"
#include "worker/process.h"
#include "worker/restart_policy.h"
#include "worker/shared_pool.h"
#include "worker/spec_wire.h"

namespace gradus::worker {

/// Why a worker is of no use any more.
struct Loss {
  enum class Cause {
    kDied,         // exited, or killed by a signal that was not ours
    kHung,         // no answer within max_run, or to pings
    kProtocol,     // sent what cannot be understood
    kSticky,       // its device context is poisoned (runtime::FaultClass::kSticky)
    kOutOfMemory,  // out of memory again and again
    kFailures,     // every run in it fails, and has for some time
    kStart,        // did not come up, or none of its levels did
    kStopped,      // on purpose
  };
  Cause cause = Cause::kDied;
  std::string text;  // `worker 1234 of device 'webgpu:0' was killed by signal 9`
};
std::string_view to_string(Loss::Cause cause);  // `died`, `hung`, …

class Worker {
 public:
  struct Options {
    Greeting greeting;
    std::string executable = "/proc/self/exe";
    std::vector<std::string> arguments = {"worker"};
    Duration hello_limit = std::chrono::seconds(30);  // until it is ready to load
    const SharedPool* pool = nullptr;  // inputs in it are not copied; borrowed; null: all are
    Process::Kill kill = Process::sigkill;
  };

  /// Starts it and waits until it has answered. From a thread that outlives it (Process::spawn).
  /// @param until a descriptor: once it is readable nobody waits any more; -1: none
  /// kUnavailable: it did not come up; what happened.
  static Result<std::shared_ptr<Worker>> start(const Options& options, int until = -1);
  /// Kills it if it lives. Outputs that are still held stay readable; of one that does not die,
  /// what it may still read stays as it is until this process ends.
  ~Worker();

  pid_t pid() const { return process_->pid(); }
  int death_fd() const { return process_->death_fd(); }

  struct Session {
    std::uint64_t id = 0;
    LoadedFacts facts;
  };
  /// As runtime::OrtRuntime::load. Any thread. Not done within `limit`: the worker is killed. Of a
  /// worker that is lost kUnavailable, kNotFound or kWorkerLost, as run()'s.
  Result<Session> load(const runtime::LoadSpec& spec, Duration limit);
  void unload(std::uint64_t session, Duration limit);

  /// As runtime::Backend::run; inputs that lie in one block of the pool are read there, others are
  /// copied to shared memory; outputs lie there, each held by its tensor. Any thread, at once with
  /// others. Not answered within `limit`: the worker is killed. A block that a lost worker may
  /// still read is not used again before it is dead. kWorkerLost: it died, hung, broke the protocol
  /// or was poisoned while it had this run; kNotFound: it was lost before, or for another reason.
  Result<std::vector<Tensor>> run(std::uint64_t session, const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs, Duration limit);

  /// How a run of one of its sessions ended, unless by the request's own fault; of one that run()
  /// gave outputs of it is noted. Any thread.
  void note_run(bool ok, TimePoint at);
  FailedRuns failed_runs() const;

  /// False: no answer within `limit`, or lost. One thread at a time.
  /// @param until as start()'s
  bool ping(Duration limit, int until = -1);

  /// Kills it; the first call's loss is the one that is told. Any thread.
  /// @return what is told
  Error lose(Loss::Cause cause, const std::string& what);
  std::optional<Loss> loss() const;
  /// Nothing while it lives; afterwards lose() with how it died has been called. Any thread.
  std::optional<Loss> check_death();
  /// False: it does not die.
  bool wait_dead(Duration limit);

  /// Closes channels that no run needed since the last call, and those that keep much more memory
  /// than their runs needed; a later run opens another. Any thread.
  void trim();
  /// Channels without a run, and what their slots for copied inputs take.
  struct Idle {
    std::size_t channels = 0;
    std::size_t slot_bytes = 0;
  };
  Idle idle() const;

  /// Asks it to leave, then kills it. @return as wait_dead()
  bool stop(Duration grace);

  /// Called once, by whichever thread calls lose() first. Set before sharing the worker.
  std::function<void()> on_loss;

 private:
  Worker(const Options& options, std::unique_ptr<Process> process, Socket control);

  Result<void> hello(const Options& options, int until);
  Result<std::unique_ptr<Channel>> take_channel();
  void give_back(std::unique_ptr<Channel> channel, bool run_succeeded = false);
  Result<Message> turn(Channel& channel, Kind kind, std::span<const std::byte> body, Kind reply,
                       Duration limit);
  Result<std::uint64_t> ask(Channel& channel, Kind kind, std::span<const std::byte> body, int fd);
  Result<Message> hear(Channel& channel, std::uint64_t request, Kind reply, Duration limit);
  Error lost_with(std::unique_ptr<Channel> channel, Error error);
  Error lost_before(Error error) const;
  Error died();

  const std::string who_;  // `worker 1234 of device 'webgpu:0'`
  const SharedPool* const pool_;
  const std::unique_ptr<Process> process_;
  const Fd lost_;   // eventfd, readable once it is lost: it may live on
  Socket control_;  // receiving: one thread at a time, by ping()'s contract
  std::atomic<std::uint64_t> next_{1};
  mutable Mutex mutex_;
  std::optional<Loss> loss_ GUARDED_BY(mutex_);
  FailedRuns failed_runs_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Channel>> idle_ GUARDED_BY(mutex_);  // taken from the back
  std::size_t unused_ GUARDED_BY(mutex_) = 0;  // the fewest that were idle since trim()
  // Of runs that it was lost with: it may read their inputs until it is dead.
  std::vector<std::unique_ptr<Channel>> held_ GUARDED_BY(mutex_);
  Mutex control_mutex_;  // held to send on control_
};

}  // namespace gradus::worker
