#include "serving/in_flight.h"

#include <utility>

#include "ladder/events.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

std::string level_text(const LevelSlot& slot) {
  return "level " + std::to_string(slot.config.level) + " '" + slot.config.name + "'";
}

TimePoint deadline_of(const Request& request, const config::ModelConfig& config) {
  return request.arrival + request.timeout.value_or(config.default_timeout);
}

}  // namespace

void InFlight::start(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                     DeadlineTimer& timer) {
  const auto self = std::make_shared<InFlight>(std::move(model), std::move(request),
                                               std::move(done), clock, timer);
  if (clock.now() >= self->deadline_) {
    self->expire();
    return;
  }
  self->ticket_ = timer.add(self->deadline_, self);
  self->route_ = self->model_->ladder.route({self->request_.min_level, self->request_.max_level});
  self->go_on();
}

InFlight::InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                   DeadlineTimer& timer)
    : model_(std::move(model)),
      request_(std::move(request)),
      done_(std::move(done)),
      clock_(clock),
      timer_(timer),
      deadline_(deadline_of(request_, model_->config)) {}

InFlight::~InFlight() {
  if (!finished())
    finish(fail(Code::kUnavailable,
                "the request was dropped: the server is stopping, or out of memory"));
}

void InFlight::expire() {
  finish(fail(Code::kDeadline, "model '" + model_->name + "': the deadline of " +
                                   std::to_string(to_us(deadline_ - request_.arrival)) +
                                   " us passed before a level answered"));
}

void InFlight::go_on() {
  while (next_ < route_.size()) {
    LevelSlot* const slot = model_->slot(route_[next_++]);
    if (slot != nullptr && slot->runtime() != nullptr && queue_on(*slot)) return;
  }
  give_up();
}

bool InFlight::queue_on(LevelSlot& slot) {
  auto bound = bind_request(request_, slot.runtime()->signature());
  if (!bound) {
    refuse(bound.error());
    return false;
  }
  bound_ = std::move(*bound);
  queued_at_ = clock_.now();
  auto job = [self = shared_from_this(), &slot] { self->run_on(slot); };
  RunLane& lane = *slot.runtime()->lane;
  if (waited_) {
    lane.push_next(std::move(job));
    return true;
  }
  if (lane.try_push(std::move(job))) return true;
  overloaded_ = true;
  note(slot, "its queue is full");
  return false;
}

void InFlight::run_on(LevelSlot& slot) {
  if (finished()) return;  // the deadline passed while it waited
  const LevelRuntime& level = *slot.runtime();
  const TimePoint begun = clock_.now();
  waited_ = true;
  queue_ += begun - queued_at_;

  auto result = level.run(bound_.inputs, bound_.outputs);
  const TimePoint ended = clock_.now();

  const bool refused = !result && result.error().code == Code::kInvalid;
  if (!refused) {  // the request's own fault is nobody's failure
    model_->ladder.tell(ladder::Outcome{.level = slot.config.level,
                                        .begun = begun,
                                        .ended = ended,
                                        .queue = begun - queued_at_,
                                        .run = ended - begun,
                                        .ok = result.has_value(),
                                        .bucket = shape_bucket(bound_.inputs)});
  }
  if (result) return answer(slot, std::move(*result), ended - begun);
  if (refused) {
    refuse(result.error());
  } else {
    note(slot, result.error().message);
  }
  go_on();
}

void InFlight::answer(const LevelSlot& slot, std::vector<Tensor> tensors, Duration run) {
  if (finished()) return;
  Response response;
  response.model = model_->name;
  response.version = model_->version;
  response.id = request_.id;
  response.outputs.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    response.outputs.push_back(
        {slot.runtime()->signature().outputs[bound_.outputs[i]].name, std::move(tensors[i])});
  }
  response.origin = {.level = slot.config.level,
                     .level_name = slot.config.name,
                     .variant = slot.config.file,
                     .degraded = model_->ladder.degraded_at(slot.config.level),
                     .queue = queue_,
                     .run = run,
                     .latency = clock_.now() - request_.arrival};
  finish(std::move(response));
}

void InFlight::give_up() {
  if (!refusal_.empty() && !overloaded_) {
    return finish(fail(Code::kInvalid, "model '" + model_->name + "': " + refusal_));
  }
  std::string why = "model '" + model_->name + "': no level that the request accepts could answer";
  const std::string reasons = tried_.empty() ? missing_levels(*model_) : tried_;
  if (!reasons.empty()) why += ": " + reasons;
  finish(fail(overloaded_ ? Code::kOverloaded : Code::kUnavailable, std::move(why)));
}

// The level cannot take this request; a worse one may take more shapes than it does.
void InFlight::refuse(const Error& error) {
  if (refusal_.empty()) refusal_ = error.message;
}

void InFlight::note(const LevelSlot& slot, const std::string& what) {
  if (!tried_.empty()) tried_ += "; ";
  tried_ += level_text(slot) + ": " + what;
}

void InFlight::finish(Result<Response> result) {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return;
  if (result || result.error().code != Code::kDeadline) timer_.cancel(ticket_);
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace gradus::serving
