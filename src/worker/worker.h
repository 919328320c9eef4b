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
#include "worker/process.h"
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
  };

  /// Starts it and waits until it has answered. From a thread that outlives it (Process::spawn).
  /// kUnavailable: it did not come up; what happened.
  static Result<std::shared_ptr<Worker>> start(const Options& options);
  /// Kills it if it lives. Outputs that are still held stay readable.
  ~Worker();

  pid_t pid() const { return process_->pid(); }
  int death_fd() const { return process_->death_fd(); }

  struct Session {
    std::uint64_t id = 0;
    LoadedFacts facts;
  };
  /// As runtime::OrtRuntime::load. Any thread. kUnavailable also: the worker was lost meanwhile.
  Result<Session> load(const runtime::LoadSpec& spec, Duration limit);
  void unload(std::uint64_t session, Duration limit);

  /// As runtime::Backend::run; inputs are copied to shared memory, outputs lie there, each held by
  /// its tensor. Any thread, at once with others. Not answered within `limit`: the worker is
  /// killed.
  Result<std::vector<Tensor>> run(std::uint64_t session, std::span<const TensorView> inputs,
                                  std::span<const std::size_t> outputs, Duration limit);

  /// False: no answer within `limit`, or lost. One thread at a time.
  bool ping(Duration limit);

  /// Kills it; the first call's loss is the one that is told. Any thread.
  /// @return what is told
  Error lose(Loss::Cause cause, const std::string& what);
  std::optional<Loss> loss() const;
  /// Nothing while it lives; afterwards lose() with how it died has been called. Any thread.
  std::optional<Loss> check_death();
  /// False: it does not die.
  bool wait_dead(Duration limit) { return process_->wait_dead(limit); }

  /// Asks it to leave, then kills it. @return as wait_dead()
  bool stop(Duration grace);

  /// Called once, by whichever thread calls lose() first. Set before sharing the worker.
  std::function<void()> on_loss;

 private:
  struct Channel;

  Worker(std::string device, std::unique_ptr<Process> process, Socket control);

  Result<void> hello(const Options& options);
  Result<std::unique_ptr<Channel>> take_channel();
  void give_back(std::unique_ptr<Channel> channel);
  Result<Message> turn(Channel& channel, Kind kind, std::span<const std::byte> body, int fd,
                       Kind reply, Duration limit);
  Error died();

  const std::string who_;  // `worker 1234 of device 'webgpu:0'`
  const std::unique_ptr<Process> process_;
  Socket control_;  // receiving: one thread at a time, by ping()'s contract
  std::atomic<std::uint64_t> next_{1};
  mutable Mutex mutex_;
  std::optional<Loss> loss_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Channel>> idle_ GUARDED_BY(mutex_);
  Mutex control_mutex_;  // held to send on control_
};

}  // namespace gradus::worker
