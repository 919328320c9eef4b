#include "serving/in_flight.h"

#include <algorithm>
#include <utility>

#include "batch/batchable.h"
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
  if (clock.now() >= self->deadline) {
    self->expire();
    return;
  }
  self->ticket_ = timer.add(self->deadline, self);
  self->plan();
  self->go_on();
}

InFlight::InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                   DeadlineTimer& timer)
    : model_(std::move(model)),
      request_(std::move(request)),
      done_(std::move(done)),
      clock_(clock),
      timer_(timer) {
  tier = *request_.tier;
  deadline = deadline_of(request_, model_->config);
}

InFlight::~InFlight() {
  if (!finished())
    finish(fail(Code::kUnavailable,
                "the request was dropped: the server is stopping, or out of memory"));
}

void InFlight::expire() {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return;
  // First the place in the queue, then the answer: who has it may ask again at once.
  LevelQueue* const queue = waits_in_.load(std::memory_order_acquire);
  if (queue != nullptr && queue->remove(*this)) {
    model_->ladder.tell(ladder::TooLate{queue->level(), clock_.now()});
  }
  std::exchange(
      done_, nullptr)(fail(Code::kDeadline, "model '" + model_->name + "': the deadline of " +
                                                std::to_string(to_us(deadline - request_.arrival)) +
                                                " us passed before a level answered"));
}

void InFlight::evicted(const char* why) {
  overloaded_ = true;
  if (!tried_.empty()) tried_ += "; ";
  tried_ += why;
  go_on();
}

// Better tiers hold the GPU, unless it has nothing to do and the share of `batch` is not used up.
void InFlight::plan() {
  const ladder::Route route = model_->ladder.route({request_.min_level, request_.max_level});
  if (tier != config::Tier::kBatch) {
    route_ = route;
    return;
  }
  const auto held = [this](int level) {
    const LevelRuntime* const runtime = model_->slot(level)->runtime();
    return runtime != nullptr && runtime->on_gpu && !runtime->queue->has_room_for_batch_tier();
  };
  ladder::Route last;
  for (const int level : route) (held(level) ? last : route_).append(level);
  for (const int level : last) route_.append(level);
}

void InFlight::go_on() {
  using Admission = LevelQueue::Admission;
  const std::size_t from = next_;
  if (finished() || try_levels(from, Admission::kByEstimate)) return;
  // It has cost a run already: rather late than not at all.
  if (overloaded_ && try_levels(from, ran_ ? Admission::kAlways : Admission::kNowAndThen)) return;
  give_up();
}

bool InFlight::try_levels(std::size_t from, LevelQueue::Admission admission) {
  for (next_ = from; next_ < route_.size();) {
    LevelSlot* const slot = model_->slot(route_[next_++]);
    if (slot == nullptr || slot->runtime() == nullptr || !may_run_on(*slot)) continue;
    if (queue_on(*slot, admission)) return true;
  }
  return false;
}

// A request that a worker was lost with may be why: it goes where it can do no harm to this process
// as long as there is such a level (docs/adr/0007-suspect-requests.md).
bool InFlight::may_run_on(const LevelSlot& slot) const {
  if (lost_workers_ == 0 || config::is_isolated(slot.config)) return true;
  return std::none_of(route_.begin() + next_, route_.end(), [this](int level) {
    const LevelSlot* const later = model_->slot(level);
    return config::is_isolated(later->config) && later->runtime() != nullptr && !later->gone;
  });
}

bool InFlight::queue_on(LevelSlot& slot, LevelQueue::Admission admission) {
  const LevelRuntime& level = *slot.runtime();
  auto bound = bind_request(request_, level.signature());
  if (!bound) {
    refuse(bound.error());
    return false;
  }
  bound_ = std::move(*bound);
  batch::Fit fit;
  if (level.padding) fit = batch::fit(*level.padding, bound_.inputs, bound_.outputs);
  samples = fit.samples;
  length = fit.length;
  // A suspect runs alone: whoever ran with it would become one.
  group = slot.config.max_batch_size > 1 && lost_workers_ == 0 ? fit.group : 0;
  shape = shape_of(fit, bound_.inputs);
  bytes = 0;
  for (const TensorView& input : bound_.inputs) bytes += input.data.size();

  // From the push on it may run, and end, elsewhere.
  const bool first = !ran_;
  const bool pushed_below = overloaded_;
  const std::shared_ptr<Model> model = model_;
  waits_in_.store(level.queue, std::memory_order_release);
  const LevelQueue::Pushed pushed = ran_ ? level.queue->push_again(shared_from_this(), admission)
                                         : level.queue->push(shared_from_this(), admission);
  if (pushed == LevelQueue::Pushed::kTaken) {
    if (finished()) level.queue->remove(*this);  // its deadline passed before it was in
    if (first) {
      model->ladder.tell(ladder::Planned{slot.config.level, clock_.now(), pushed_below});
    }
    return true;
  }
  overloaded_ = true;
  note(slot, pushed == LevelQueue::Pushed::kFull ? "its queue is full"
                                                 : "it would answer after the deadline");
  return false;
}

void InFlight::begin(TimePoint at) {
  ran_ = true;
  queue_ += at - queued_at;
}

void InFlight::failed(const LevelSlot& slot, const Error& error) {
  if (error.code == Code::kInvalid) {
    refuse(error);
  } else {
    note(slot, error.message);
  }
  if (error.code == Code::kWorkerLost && ++lost_workers_ == 2) {
    finish(fail(Code::kInternal, "model '" + model_->name +
                                     "': the request is not tried again, since two workers were "
                                     "lost while it ran there: " +
                                     tried_));
    return;
  }
  go_on();
}

void InFlight::answer(const LevelSlot& slot, std::vector<Tensor> outputs, Duration run) {
  if (finished()) return;
  Response response;
  response.model = model_->name;
  response.version = model_->version;
  response.id = request_.id;
  response.outputs.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    response.outputs.push_back(
        {slot.runtime()->signature().outputs[bound_.outputs[i]].name, std::move(outputs[i])});
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
  if (overloaded_ && !ran_) {
    model_->ladder.tell(ladder::TooLate{route_[0], clock_.now()});
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
  timer_.cancel(ticket_);
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace gradus::serving
