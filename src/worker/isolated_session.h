// One variant of a model in whichever worker its device has now: it outlives workers, so that what
// serves holds on to one Backend through every restart.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "runtime/load.h"
#include "worker/max_run.h"
#include "worker/worker.h"

namespace gradus::worker {

class IsolatedSession final : public runtime::Backend {
 public:
  /// @param target of one run, as the level's; ten of it are a hang
  IsolatedSession(runtime::LoadSpec spec, Duration target, LoadedFacts facts, const Clock& clock);

  const runtime::LoadSpec& spec() const { return spec_; }
  const runtime::Signature& signature() const override { return facts_.signature; }
  const std::vector<runtime::Placement>& placement() const override { return facts_.placement; }

  /// From now on runs go to this worker. kUnavailable: what it loaded is another model than before.
  Result<void> move_to(std::shared_ptr<Worker> worker, const Worker::Session& session);
  /// No worker has it: runs fail at once, kNotFound with this reason.
  void detach(const std::string& reason);
  void unload();
  /// What a model's owner holds: unloads the session when it goes.
  static std::unique_ptr<runtime::Backend> handle(std::shared_ptr<IsolatedSession> session);

  using Backend::run;
  /// As Backend::run, kNotFound if its worker was lost before. Blocks until the worker answers,
  /// dies, or the run has taken max_run; a sticky fault, or want of memory three times in a row,
  /// ends the worker. Errors are judged by runtime::fault_class(); of a worker that was lost they
  /// are Loss::text, with kWorkerLost where this run may be why (Worker::run), as after a sticky
  /// fault.
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override;

 private:
  bool judge(Worker& worker, const Error& error);

  const runtime::LoadSpec spec_;
  const Duration target_;
  const LoadedFacts facts_;
  const Clock& clock_;
  Mutex mutex_;
  std::shared_ptr<Worker> worker_ GUARDED_BY(mutex_);
  std::uint64_t session_ GUARDED_BY(mutex_) = 0;
  std::string reason_ GUARDED_BY(mutex_);  // while there is no worker
  ShapeTimes times_ GUARDED_BY(mutex_);    // of this worker: a fresh one compiles anew
  FirstRuns first_runs_ GUARDED_BY(mutex_);
  int out_of_memory_ GUARDED_BY(mutex_) = 0;  // in a row
};

}  // namespace gradus::worker
