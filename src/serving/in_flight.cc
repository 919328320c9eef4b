#include "serving/in_flight.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "batch/batchable.h"
#include "ladder/events.h"
#include "ladder/plan.h"
#include "serving/declared.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

static_assert(ladder::kMaxLevels <= 8, "tried_levels_ has a bit for each");

std::string level_text(const LevelSlot& slot) {
  return "level " + std::to_string(slot.config.level) + " '" + slot.config.name + "'";
}

std::string ms_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", to_ms(time));
  return text;
}

TimePoint deadline_of(const Request& request, const config::ModelConfig& config) {
  return request.arrival + request.timeout.value_or(config.default_timeout);
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
      deadline_(deadline_of(request_, model_->config)),
      attempts_{Attempt(*this), Attempt(*this)} {
  for (Attempt& attempt : attempts_) {
    attempt.tier = tier_;
    attempt.deadline = deadline_;
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
    if (later != nullptr && config::is_isolated(later->config) && !later->gone) return false;
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
  if (!bound) {
    const MutexLock lock(mutex_);
    tried_levels_ |= static_cast<std::uint8_t>(1U << place);
    refuse(bound.error());
    return false;
  }
  attempt.bound_ = std::move(*bound);
  const BoundRequest& what = attempt.bound_;
  batch::Fit fit;
  if (level.padding) fit = batch::fit(*level.padding, what.inputs, what.outputs);
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
    pushed_below = overloaded_;
  }
  // From the push on it may run, and end, elsewhere.
  const std::shared_ptr<Waiting> waiting(shared_from_this(), &attempt);
  const LevelQueue::Pushed pushed =
      ran ? queue.push_again(waiting, admission) : queue.push(waiting, admission);
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
  overloaded_ = true;
  note(&slot, pushed == LevelQueue::Pushed::kFull ? "its queue is full"
                                                  : "it would answer after the deadline");
  return Placed::kRefused;
}

bool InFlight::may_be_hedged(const LevelSlot& slot) const {
  for (std::size_t place = 0; place < route_.size(); ++place) {
    const LevelSlot* const next = route_.proven(place) ? untried(place) : nullptr;
    if (next != nullptr && !share_device(slot.config, next->config)) return true;
  }
  return false;
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

void InFlight::hedge(TimePoint now) {
  if (!take_turn()) return wake_at(std::min(deadline_, now + 1ms));
  Attempt* from = nullptr;
  bool only_one = false;
  {
    const MutexLock lock(mutex_);
    for (Attempt& one : attempts_) {
      if (one.slot_ != nullptr) from = &one;
    }
    only_one = from != nullptr && other(*from).slot_ == nullptr;
  }
  const auto again = only_one ? hedge_from(*from, other(*from), now) : std::nullopt;
  wake_at(again.value_or(deadline_));
  while (!end_turn()) place_next();
}

// When to look again; nothing: no more. The best level that is still in time is the one.
std::optional<TimePoint> InFlight::hedge_from(Attempt& from, Attempt& into, TimePoint now) {
  int level = 0;
  {
    const MutexLock lock(mutex_);
    if (from.slot_ == nullptr) return std::nullopt;  // failed meanwhile; go_on() is to look again
    level = from.slot_->config.level;
  }
  for (std::size_t place = 0; place < route_.size(); ++place) {
    LevelSlot* slot = nullptr;
    {
      const MutexLock lock(mutex_);
      if (route_.proven(place)) slot = untried(place);
      if (slot != nullptr && (!may_go_to(*slot, into) || held_by_better_tiers(*slot))) {
        slot = nullptr;
      }
    }
    if (slot == nullptr || !bind(into, *slot, place)) continue;
    const ladder::Prospect next = slot->runtime()->queue->prospect(into);
    const auto at = ladder::hedge_at({.started = from.pushed_at_,
                                      .usual = from.usual,
                                      .next = next,
                                      .upwards = slot->config.level < level,
                                      .deadline = deadline_});
    if (!at) continue;
    if (*at > now) return at;
    start_hedge(from, into, place, now);
    return std::nullopt;
  }
  return std::nullopt;
}

void InFlight::start_hedge(Attempt& from, Attempt& into, std::size_t place, TimePoint now) {
  LevelSlot* left = nullptr;
  {
    const MutexLock lock(mutex_);
    left = from.slot_;  // null: it has just failed, and go_on() is to look again
  }
  if (left == nullptr) return;
  // What only waits goes elsewhere; what runs is let run, at the cost of doing it twice.
  if (left->runtime()->queue->remove(from)) {
    model_->ladder.tell(ladder::TooLate{left->config.level, now});
    const MutexLock lock(mutex_);
    note(left, "it would answer after the deadline");
    free(from);
    look_again_ = true;
    return;
  }
  LevelSlot& slot = *model_->slot(route_[place]);
  if (model_->ladder.take_hedge() &&
      place_on(into, slot, place, Admission::kNowAndThen, true) == Placed::kYes) {
    slot.metrics.hedged();
  }
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
  bool ran = false;
  {
    const MutexLock lock(mutex_);
    tried = tried_;
    refusal = refusal_;
    overloaded = overloaded_;
    ran = ran_;
  }
  if (!refusal.empty() && !overloaded) {
    return finish(fail(Code::kInvalid, "model '" + model_->name + "': " + refusal));
  }
  if (overloaded && !ran) model_->ladder.tell(ladder::TooLate{route_[0], clock_.now()});
  std::string why = "model '" + model_->name + "': no level that the request accepts could answer";
  const std::string reasons = tried.empty() ? missing_levels(*model_) : tried;
  if (!reasons.empty()) why += ": " + reasons;
  finish(fail(overloaded ? Code::kOverloaded : Code::kUnavailable, std::move(why)));
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

void Attempt::evicted(const char* why) { request_.evicted(*this, why); }

bool Attempt::begin(TimePoint at, std::shared_ptr<SharedRun> run) {
  return request_.begin(*this, at, std::move(run));
}

void Attempt::answer(std::vector<Tensor> outputs, const metrics::RunTimes& run) {
  request_.answer(*this, std::move(outputs), run);
}

void Attempt::failed(const Error& error) { request_.failed(*this, error); }

}  // namespace gradus::serving
