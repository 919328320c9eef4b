// How a request ends, and what is told of the levels that it tried.
#include <cstdio>
#include <utility>

#include "ladder/events.h"
#include "serving/declared.h"
#include "serving/in_flight.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

std::string level_text(const LevelSlot& slot) {
  return "level " + std::to_string(slot.config.level) + " '" + slot.config.name + "'";
}

std::string ms_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", to_ms(time));
  return text;
}

}  // namespace

void InFlight::answer(Attempt& attempt, std::vector<Tensor> outputs, const metrics::RunTimes& run) {
  if (finished()) return;
  const LevelSlot* slot = nullptr;
  Duration queue{};
  TimePoint queued{};
  TimePoint begun{};
  {
    const MutexLock lock(mutex_);
    slot = attempt.slot_;
    queue = queue_;
    queued = attempt.pushed_at_;
    begun = attempt.begun_.value_or(queued);
    attempt.run_ = nullptr;
  }
  Response response;
  response.model = model_->name;
  response.version = model_->version;
  response.id = request_.id;
  response.outputs.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    response.outputs.push_back(
        {slot->runtime()->signature().outputs[attempt.bound_.outputs[i]].name,
         std::move(outputs[i])});
    NamedTensor& output = response.outputs.back();
    if (const auto* said = find_declared(model_->config.declared.outputs, output.name)) {
      output.tensor.shape = client_shape(model_->config.declared, *said, output.tensor.shape);
    }
  }
  response.origin = {.level = slot->config.level,
                     .level_name = slot->config.name,
                     .variant = slot->config.file,
                     .degraded = model_->ladder.degraded_at(slot->config.level),
                     .queue = queue,
                     .run = run.input + run.infer + run.output,
                     .latency = clock_.now() - request_.arrival,
                     .queued = queued,
                     .begun = begun,
                     .joining = run.input,
                     .splitting = run.output};
  finish(std::move(response), &attempt);
}

void InFlight::expire() {
  std::string why = "model '" + model_->name + "': the deadline of " +
                    std::to_string(to_us(deadline_ - request_.arrival)) +
                    " us passed before a level answered";
  {
    const TimePoint now = clock_.now();
    const MutexLock lock(mutex_);
    for (const Attempt& attempt : attempts_) {
      if (attempt.slot_ == nullptr) continue;
      note(attempt.slot_, attempt.begun_
                              ? "it had run for " + ms_text(now - *attempt.begun_)
                              : "it had waited for " + ms_text(now - attempt.pushed_at_));
    }
    if (!tried_.empty()) why += ": " + tried_;
  }
  finish(fail(Code::kDeadline, std::move(why)));
}

void InFlight::cancel() { finish(fail(Code::kCancelled, "the client has gone")); }

void InFlight::give_up() {
  std::string tried;
  std::string refusal;
  bool overloaded = false;
  bool bounded = false;
  bool ran = false;
  {
    const MutexLock lock(mutex_);
    tried = tried_;
    refusal = refusal_;
    overloaded = overloaded_;
    bounded = bounded_;
    ran = ran_;
  }
  if (!refusal.empty() && !overloaded && !bounded) {
    return finish(fail(Code::kInvalid, "model '" + model_->name + "': " + refusal));
  }
  if (overloaded && !ran) model_->ladder.tell(ladder::TooLate{route_[0], clock_.now()});
  std::string why = "model '" + model_->name + "': no level that the request accepts could answer";
  const std::string reasons = tried.empty() ? missing_levels(*model_) : tried;
  if (!reasons.empty()) why += ": " + reasons;
  finish(fail(overloaded || bounded ? Code::kOverloaded : Code::kUnavailable, std::move(why)));
}

// The level cannot take this request; a worse one may take more shapes than it does.
void InFlight::refuse(const Error& error) {
  if (refusal_.empty()) refusal_ = error.message;
}

void InFlight::note(const LevelSlot* slot, const std::string& what) {
  const std::string text = (slot != nullptr ? level_text(*slot) + ": " : "") + what;
  if (tried_.find(text) != std::string::npos) return;  // it was asked twice
  if (!tried_.empty()) tried_ += "; ";
  tried_ += text;
}

void InFlight::finish(Result<Response> result, const Attempt* winner) {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return;
  struct Left {
    Attempt* attempt;
    LevelSlot* slot;
    std::shared_ptr<SharedRun> run;
  };
  std::array<Left, 2> left{};
  std::size_t count = 0;
  DeadlineTimer::Ticket ticket;
  {
    const MutexLock lock(mutex_);
    ticket = ticket_;
    for (Attempt& attempt : attempts_) {
      if (attempt.slot_ == nullptr || &attempt == winner) continue;
      left[count++] = {&attempt, attempt.slot_, std::move(attempt.run_)};
    }
  }
  timer_.cancel(ticket);
  // First the places in queues and devices, then the answer: who has it may ask again at once.
  const Code code = result ? Code::kInternal : result.error().code;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [attempt, slot, run] = left[i];
    const bool waited = slot->runtime()->queue->remove(*attempt);
    if (run != nullptr) run->leave();
    const auto phase = waited ? metrics::Phase::kQueued : metrics::Phase::kRunning;
    if (code == Code::kDeadline) {
      slot->metrics.deadline_missed(phase);
      if (waited) model_->ladder.tell(ladder::TooLate{slot->config.level, clock_.now()});
    }
    if (code == Code::kCancelled) slot->metrics.cancelled(phase);
  }
  if (result) {
    if (model_->ladder.canary()) model_->shapes.note(request_.inputs);
    const Origin& origin = result->origin;
    winner->slot_->metrics.answered(origin.queue, origin.run, origin.latency, origin.joining,
                                    origin.splitting);
    model_->metrics.answered(request_.arrival + origin.latency);
    if (winner->hedge_) winner->slot_->metrics.hedge_won();
  } else {
    model_->metrics.failed(code, clock_.now() - request_.arrival);
  }
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace gradus::serving
