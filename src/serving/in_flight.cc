#include "serving/in_flight.h"

#include <algorithm>
#include <utility>

#include "batch/batchable.h"
#include "ladder/events.h"

namespace gradus::serving {
namespace {

static_assert(ladder::kMaxLevels <= 8, "tried_levels_ has a bit for each");

std::string refusal_text(LevelQueue::Pushed pushed, const Attempt& attempt) {
  if (pushed == LevelQueue::Pushed::kFull) return "its queue is full";
  if (pushed == LevelQueue::Pushed::kTooLate) return "it would answer after the deadline";
  return "as many requests of priority " + std::to_string(attempt.priority) +
         " wait as may: " + std::to_string(attempt.most_of_priority);
}

// Of a level that would join requests: the first dimension is the samples'.
bool is_batch(const BoundRequest& request) {
  return std::ranges::any_of(request.inputs, [](const TensorView& input) {
    return !input.shape.empty() && input.shape[0] > 1;
  });
}

}  // namespace

Ticket InFlight::start(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                       DeadlineTimer& timer) {
  const auto self = std::make_shared<InFlight>(std::move(model), std::move(request),
                                               std::move(done), clock, timer);
  if (clock.now() >= self->deadline_) {
    self->expire();
    return {};
  }
  self->plan();
  self->go_on();
  return self;
}

InFlight::InFlight(std::shared_ptr<Model> model, Request request, Done done, const Clock& clock,
                   DeadlineTimer& timer)
    : model_(std::move(model)),
      request_(std::move(request)),
      done_(std::move(done)),
      clock_(clock),
      timer_(timer),
      tier_(*request_.tier),
      limits_(time_limits(request_, model_->config)),
      attempts_{Attempt(*this), Attempt(*this)} {
  const config::QueuePolicy& policy = model_->config.queue_policies.of(request_.priority);
  for (Attempt& attempt : attempts_) {
    attempt.tier = tier_;
    attempt.deadline = deadline_;
    attempt.due = limits_.due;
    attempt.priority = request_.priority;
    attempt.most_of_priority = policy.max_queue_size;
  }
}

InFlight::~InFlight() {
  if (!finished())
    finish(fail(Code::kUnavailable,
                "the request was dropped: the server is stopping, or out of memory"));
}

// Better tiers hold the GPU, unless it has nothing to do and the share of `batch` is not used up.
bool InFlight::held_by_better_tiers(const LevelSlot& slot) const {
  const LevelRuntime* const runtime = slot.runtime();
  return tier_ == config::Tier::kBatch && runtime != nullptr && runtime->on_gpu &&
         !runtime->queue->has_room_for_batch_tier();
}

void InFlight::plan() {
  const ladder::Route route = model_->ladder.route({request_.min_level, request_.max_level});
  if (tier_ != config::Tier::kBatch) {
    route_ = route;
    return;
  }
  std::array<bool, ladder::kMaxLevels> last{};
  for (std::size_t i = 0; i < route.size(); ++i) {
    last[i] = held_by_better_tiers(*model_->slot(route[i]));
  }
  for (const bool wanted : {false, true}) {
    for (std::size_t i = 0; i < route.size(); ++i) {
      if (last[i] == wanted) route_.append(route[i], route.proven(i));
    }
  }
}

bool InFlight::take_turn() {
  const MutexLock lock(mutex_);
  return !std::exchange(moving_, true);
}

bool InFlight::end_turn() {
  const MutexLock lock(mutex_);
  if (std::exchange(look_again_, false)) return false;
  moving_ = false;
  return true;
}

void InFlight::go_on() {
  {
    const MutexLock lock(mutex_);
    if (moving_) {
      look_again_ = true;
      return;
    }
    moving_ = true;
  }
  do {
    place_next();
  } while (!end_turn());
}

void InFlight::place_next() {
  Attempt* attempt = nullptr;
  bool ran = false;
  {
    const MutexLock lock(mutex_);
    for (Attempt& one : attempts_) {
      if (attempt == nullptr && one.slot_ == nullptr) attempt = &one;
    }
    ran = ran_;
  }
  if (finished() || attempt == nullptr) return;
  if (try_levels(*attempt, Admission::kByEstimate)) return;
  bool overloaded = false;
  {
    const MutexLock lock(mutex_);
    overloaded = overloaded_;
  }
  // It has cost a run already: rather late than not at all.
  if (overloaded && try_levels(*attempt, ran ? Admission::kAlways : Admission::kNowAndThen)) return;
  {
    const MutexLock lock(mutex_);
    if (other(*attempt).slot_ != nullptr) return;  // that one may still answer
  }
  give_up();
}

LevelSlot* InFlight::untried(std::size_t place) const {
  if ((tried_levels_ >> place & 1) != 0) return nullptr;
  LevelSlot* const slot = model_->slot(route_[place]);
  return slot != nullptr && slot->runtime() != nullptr ? slot : nullptr;
}

// A request that a worker was lost with may be why: it goes where it can do no harm to this process
// as long as there is such a level (docs/adr/0007-suspect-requests.md). And no device works twice
// for one request at once.
bool InFlight::may_go_to(const LevelSlot& slot, const Attempt& into) const {
  const LevelSlot* const beside = other(into).slot_;
  if (beside != nullptr && share_device(beside->config, slot.config)) return false;
  if (lost_workers_ == 0 || config::is_isolated(slot.config)) return true;
  if (beside != nullptr && config::is_isolated(beside->config)) return false;  // it may answer yet
  for (std::size_t i = 0; i < route_.size(); ++i) {
    const LevelSlot* const later = untried(i);
    if (later != nullptr && config::is_isolated(later->config) && !later->gone()) return false;
  }
  return true;
}

bool InFlight::try_levels(Attempt& attempt, Admission admission) {
  for (std::size_t place = 0; place < route_.size(); ++place) {
    LevelSlot* slot = nullptr;
    {
      const MutexLock lock(mutex_);
      slot = untried(place);
      if (slot != nullptr && !may_go_to(*slot, attempt)) slot = nullptr;
    }
    if (slot == nullptr || !bind(attempt, *slot, place)) continue;
    if (place_on(attempt, *slot, place, admission, false) != Placed::kRefused) return true;
  }
  return false;
}

bool InFlight::bind(Attempt& attempt, LevelSlot& slot, std::size_t place) {
  const LevelRuntime& level = *slot.runtime();
  auto bound = bind_request(request_, level.signature(), model_->config.declared);
  if (bound && level.single_only && is_batch(*bound)) {
    const MutexLock lock(mutex_);
    tried_levels_ |= static_cast<std::uint8_t>(1U << place);
    note(&slot, "it takes one sample at a time, for a batch ended its worker");
    return false;
  }
  if (!bound) {
    const MutexLock lock(mutex_);
    tried_levels_ |= static_cast<std::uint8_t>(1U << place);
    refuse(bound.error());
    return false;
  }
  attempt.bound_ = std::move(*bound);
  attempt.asked_for_ = request_.min_level >= slot.config.level;
  const BoundRequest& what = attempt.bound_;
  batch::Fit fit;
  // That an optional input's first dimension is the batch's only the config can say.
  if (level.padding && (what.optional.empty() || model_->config.declared.has_batch())) {
    fit = batch::fit(*level.padding, what.inputs, what.outputs, what.optional);
  }
  attempt.samples = fit.samples;
  attempt.length = fit.length;
  attempt.shape = shape_of(fit, what.inputs);
  attempt.bytes = 0;
  for (const TensorView& input : what.inputs) attempt.bytes += input.data.size();
  const MutexLock lock(mutex_);
  // A suspect runs alone: whoever ran with it would become one.
  attempt.group = slot.config.max_batch_size > 1 && lost_workers_ == 0 ? fit.group : 0;
  return true;
}

// kYes also if the request was answered meanwhile: there is nothing more to do.
InFlight::Placed InFlight::place_on(Attempt& attempt, LevelSlot& slot, std::size_t place,
                                    Admission admission, bool hedge) {
  const auto bit = static_cast<std::uint8_t>(1U << place);
  LevelQueue& queue = *slot.runtime()->queue;
  bool ran = false;
  bool moved = false;
  bool pushed_below = false;
  {
    const MutexLock lock(mutex_);
    if (finished()) return Placed::kYes;
    attempt.slot_ = &slot;
    attempt.hedge_ = hedge;
    attempt.pushed_at_ = clock_.now();
    attempt.begun_.reset();
    tried_levels_ |= bit;
    ran = ran_;
    moved = moved_;
    pushed_below = overloaded_;
  }
  // From the push on it may run, and end, elsewhere.
  const std::shared_ptr<Waiting> waiting(shared_from_this(), &attempt);
  const LevelQueue::Pushed pushed =
      ran || moved ? queue.push_again(waiting, admission) : queue.push(waiting, admission);
  if (pushed == LevelQueue::Pushed::kTaken) {
    if (!ran) {
      model_->ladder.tell(ladder::Planned{slot.config.level, clock_.now(), pushed_below});
    }
    if (finished()) {
      queue.remove(attempt);  // it may have been on its way in
      return Placed::kYes;
    }
    bool hedged = false;
    {
      const MutexLock lock(mutex_);
      hedged = attempt.slot_ == &slot && may_be_hedged(slot);
    }
    wake_at(hedged ? std::min(deadline_, attempt.pushed_at_ + attempt.usual) : deadline_);
    return Placed::kYes;
  }
  const MutexLock lock(mutex_);
  attempt.slot_ = nullptr;
  tried_levels_ &= static_cast<std::uint8_t>(~bit);
  (pushed == LevelQueue::Pushed::kPriorityFull ? bounded_ : overloaded_) = true;
  note(&slot, refusal_text(pushed, attempt));
  return Placed::kRefused;
}

void InFlight::wake_at(TimePoint at) {
  const MutexLock lock(mutex_);
  if (finished()) return;
  timer_.cancel(ticket_);
  ticket_ = timer_.add(at, shared_from_this());
}

void InFlight::due() {
  if (finished()) return;
  const TimePoint now = clock_.now();
  now >= deadline_ ? expire() : hedge(now);
}

void InFlight::free(Attempt& attempt) {
  attempt.slot_ = nullptr;
  attempt.run_ = nullptr;
}

void InFlight::evicted(Attempt& attempt, const char* why) {
  {
    const MutexLock lock(mutex_);
    overloaded_ = true;
    note(attempt.slot_, why);
    free(attempt);
  }
  go_on();
}

bool InFlight::begin(Attempt& attempt, TimePoint at, std::shared_ptr<SharedRun> run) {
  const MutexLock lock(mutex_);
  if (finished()) return false;
  ran_ = true;
  if (!attempt.begun_) queue_ += at - attempt.queued_at;  // else it begins again, by itself
  attempt.begun_ = at;
  attempt.run_ = std::move(run);
  return true;
}

void InFlight::failed(Attempt& attempt, const Error& error) {
  bool poisonous = false;
  std::string tried;
  {
    const MutexLock lock(mutex_);
    if (error.code == Code::kInvalid) {
      refuse(error);
    } else {
      note(attempt.slot_, error.message);
    }
    free(attempt);
    poisonous = error.code == Code::kWorkerLost && ++lost_workers_ == 2;
    if (poisonous) tried = tried_;
  }
  if (poisonous) {
    finish(fail(Code::kInternal, "model '" + model_->name +
                                     "': the request is not tried again, since two workers were "
                                     "lost while it ran there: " +
                                     tried));
    return;
  }
  go_on();
}

void Attempt::evicted(const char* why) { request_.evicted(*this, why); }

bool Attempt::begin(TimePoint at, std::shared_ptr<SharedRun> run) {
  return request_.begin(*this, at, std::move(run));
}

void Attempt::answer(std::vector<Tensor> outputs, const metrics::RunTimes& run) {
  request_.answer(*this, std::move(outputs), run);
}

void Attempt::failed(const Error& error) { request_.failed(*this, error); }

}  // namespace gradus::serving
