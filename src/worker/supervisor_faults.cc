// What a supervisor makes of a worker that is lost, or of no use: who is told, who leaves, and what
// becomes of the process.
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "runtime/sample_inputs.h"
#include "worker/supervisor.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeathNotice = 200ms;

std::string seconds_text(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

void Supervisor::tell_unanswered(Worker& worker) {
  if (wait_readable({end_.get()}, Duration::zero()) != 0) {
    worker.lose(Loss::Cause::kStopped, "was stopped");
  } else if (!worker.wait_dead(kDeathNotice)) {  // who dies closes its socket a moment before that
    worker.lose(Loss::Cause::kHung, "did not answer a ping for " +
                                        seconds_text(options_.ping_limit) + " ms and was killed");
  }
}

// Every run in it failed of late; whether one model alone is broken, or the worker, a run of each
// of its models tells.
void Supervisor::try_failing(Worker& worker) {
  if (!begin_blocking()) return;
  std::string why;
  bool useful = false;
  for (const Seat& seat : seats()) {
    const auto session = seat.session.lock();
    if (session == nullptr || useful) continue;
    const auto sample = runtime::find_sample(*session);
    useful = sample.has_value();
    if (useful) continue;
    const Code code = sample.error().code;
    const bool proves_nothing = code == Code::kInvalid || code == Code::kNotFound;
    if (!proves_nothing) why = sample.error().message;
  }
  end_blocking();
  if (useful || why.empty()) return worker.note_run(true, clock_.now());
  worker.lose(Loss::Cause::kFailures, "was replaced: every run in it fails: " + why);
}

void Supervisor::after_loss(const Loss& loss) {
  const Restart next = after_death(restart_, options_.restart, clock_.now(), chance());
  {
    const MutexLock lock(mutex_);
    last_fault_ = loss;
  }
  for (const Seat& seat : seats()) {
    const auto session = seat.session.lock();
    if (session == nullptr) continue;
    session->detach(loss.text);
    seat.hooks.lost(loss);
  }
  part_with_suspect();
  log::error(
      loss.text + (next.crash_loop ? "; it keeps dying, the next start waits" : ""),
      {{"class", std::string(to_string(loss.cause))}, {"restart_in_ms", seconds_text(next.wait)}});
  set_state(next.crash_loop ? WorkerState::kCrashLoop : WorkerState::kWaiting);
  wait_until(clock_.now() + next.wait);
}

void Supervisor::part_with_suspect() {
  const std::optional<Seat> suspect = std::exchange(suspect_, std::nullopt);
  const auto session = suspect ? suspect->session.lock() : nullptr;
  if (session == nullptr || suspect->hooks.suspect == nullptr) return;
  {
    const MutexLock lock(mutex_);
    drop_expired();
    if (seats_.size() == 1 && loading_ == 0) {  // nobody else suffers, or waits behind it
      seats_.front().load_limit = options_.load_limit;
      return;
    }
    std::erase_if(seats_, [&](const Seat& seat) {
      return !seat.session.owner_before(session) && !session.owner_before(seat.session);
    });
  }
  suspect->hooks.suspect(*suspect);
}

void Supervisor::abandon(std::shared_ptr<Worker> worker) {
  abandoned_.push_back(std::move(worker));
  const MutexLock lock(mutex_);
  abandoned_count_ = static_cast<int>(abandoned_.size());
}

void Supervisor::reap_abandoned() {
  std::erase_if(abandoned_, [](const auto& worker) { return worker->wait_dead(Duration::zero()); });
  const MutexLock lock(mutex_);
  abandoned_count_ = static_cast<int>(abandoned_.size());
}

}  // namespace gradus::worker
