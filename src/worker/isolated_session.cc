#include "worker/isolated_session.h"

#include <algorithm>
#include <utility>

#include "runtime/fault_class.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr int kOutOfMemoryInARow = 3;
constexpr auto kUnloadLimit = 10s;

bool same(const std::vector<runtime::TensorSpec>& a, const std::vector<runtime::TensorSpec>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape;
  });
}

class Handle final : public runtime::Backend {
 public:
  explicit Handle(std::shared_ptr<IsolatedSession> session) : session_(std::move(session)) {}
  ~Handle() override { session_->unload(); }
  const runtime::Signature& signature() const override { return session_->signature(); }
  const std::vector<runtime::Placement>& placement() const override {
    return session_->placement();
  }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override {
    return session_->run(inputs, outputs, stop);
  }

 private:
  const std::shared_ptr<IsolatedSession> session_;
};

}  // namespace

std::unique_ptr<runtime::Backend> IsolatedSession::handle(
    std::shared_ptr<IsolatedSession> session) {
  return std::make_unique<Handle>(std::move(session));
}

IsolatedSession::IsolatedSession(runtime::LoadSpec spec, Duration target, LoadedFacts facts,
                                 const Clock& clock)
    : spec_(std::move(spec)), target_(target), facts_(std::move(facts)), clock_(clock) {}

Result<void> IsolatedSession::move_to(std::shared_ptr<Worker> worker,
                                      const Worker::Session& session) {
  if (!same(session.facts.signature.inputs, facts_.signature.inputs) ||
      !same(session.facts.signature.outputs, facts_.signature.outputs) ||
      !same(session.facts.signature.optional_inputs, facts_.signature.optional_inputs)) {
    return fail(Code::kUnavailable,
                spec_.file.string() + " has other inputs or outputs than when it was first loaded");
  }
  const MutexLock lock(mutex_);
  worker_ = std::move(worker);
  session_ = session.id;
  times_ = {};
  out_of_memory_ = 0;
  return {};
}

void IsolatedSession::detach(const std::string& reason) {
  std::shared_ptr<Worker> last;  // ends outside the lock
  const MutexLock lock(mutex_);
  last = std::move(worker_);
  worker_ = nullptr;
  reason_ = reason;
}

void IsolatedSession::unload() {
  std::shared_ptr<Worker> worker;
  std::uint64_t session = 0;
  {
    const MutexLock lock(mutex_);
    worker = std::exchange(worker_, nullptr);
    session = session_;
    reason_ = "unloaded";
  }
  if (worker != nullptr) worker->unload(session, kUnloadLimit);
}

// A worker is not told to stop: what it answers late is not waited for, and its next run comes
// after.
Result<std::vector<Tensor>> IsolatedSession::run(const runtime::RunInputs& inputs,
                                                 std::span<const std::size_t> outputs,
                                                 runtime::Stop*) {
  const std::uint64_t shape = shape_bucket(inputs.views);
  std::uint64_t bytes = 0;
  for (const TensorView& input : inputs.views) bytes += input.data.size();
  std::shared_ptr<Worker> worker;
  std::uint64_t session = 0;
  bool first = false;
  Duration limit{};
  {
    const MutexLock lock(mutex_);
    if (worker_ == nullptr) return fail(Code::kNotFound, reason_);
    worker = worker_;
    session = session_;
    const ShapeTimes::Times times = times_.of(shape);
    first = times.runs == 0;
    limit = first ? first_runs_.limit(target_, shape, bytes) : max_run(target_, times);
  }
  const TimePoint begun = clock_.now();
  auto tensors = worker->run(session, inputs, outputs, limit);
  const Duration took = clock_.now() - begun;
  if (!tensors) {
    if (first && tensors.error().code == Code::kWorkerLost && took >= limit) {
      const MutexLock lock(mutex_);
      first_runs_.cut(shape, bytes, limit);
    }
    if (judge(*worker, tensors.error())) tensors.error().code = Code::kWorkerLost;
    return tensors;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if ((*tensors)[i].dtype != facts_.signature.outputs[outputs[i]].dtype) {
      worker->lose(Loss::Cause::kProtocol, "was killed: an output has another type");
      return fail(Code::kWorkerLost, worker->loss()->text);
    }
  }
  const MutexLock lock(mutex_);
  if (worker_ == worker) {
    times_.add(shape, took);
    if (first) first_runs_.ended(shape, bytes, took);
    out_of_memory_ = 0;
  }
  return tensors;
}

// True: it poisoned its worker.
bool IsolatedSession::judge(Worker& worker, const Error& error) {
  if (error.code == Code::kNotFound) return false;
  const runtime::FaultClass fault = runtime::fault_class(error);
  if (fault == runtime::FaultClass::kRequest) return false;
  worker.note_run(false, clock_.now());
  if (fault == runtime::FaultClass::kSticky) {
    worker.lose(Loss::Cause::kSticky, "was replaced: " + error.message);
    return worker.loss()->text != error.message;  // else it was lost already
  }
  int in_a_row = 0;
  {
    const MutexLock lock(mutex_);
    if (fault != runtime::FaultClass::kOutOfMemory) return false;
    in_a_row = ++out_of_memory_;
  }
  if (in_a_row >= kOutOfMemoryInARow) {
    worker.lose(Loss::Cause::kOutOfMemory, "was replaced: " + error.message);
  }
  return false;
}

}  // namespace gradus::worker
