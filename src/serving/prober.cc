#include "serving/prober.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/sample_inputs.h"
#include "serving/level_devices.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr auto kRound = 200ms;  // how finely probes and ticks are timed

Result<std::vector<Tensor>> run_like_requests(Model& model, const LevelRuntime& level) {
  const auto inputs = runtime::sample_inputs(model.shapes.next(level.signature()), 1);
  return level.run(runtime::views_of(inputs), level.all_outputs());
}

void probe(Model& model, LevelSlot& slot, const Clock& clock) {
  const TimePoint begun = clock.now();
  const LevelRuntime& level = *slot.runtime();
  const bool canary = model.ladder.canary() == slot.config.level;
  const auto outputs = canary ? run_like_requests(model, level) : level.run_sample();
  const TimePoint ended = clock.now();
  const bool ok = outputs.has_value();
  if (!ok && outputs.error().code == Code::kNotFound) return;  // its worker's loss is told already
  if (ok && !canary) level.queue->probed(level.sample_kind, ended - begun);
  model.ladder.tell(ladder::Probe{
      .level = slot.config.level,
      .at = ended,
      .run = ended - begun,
      .ok = ok,
      .error = ok ? std::string_view() : outputs.error().message,
  });
}

void probe_what_is_wanted(Model& model, LevelSlot& slot, bool level_too, const Clock& clock) {
  struct Done {
    LevelSlot& slot;
    ~Done() { slot.probing = false; }
  };
  const Done whatever_happens{slot};
  if (level_too) probe(model, slot, clock);
  try_left_alone_devices(slot);
}

// What each level would make of the present load, were it to have all of it.
void predict(Model& model, TimePoint now) {
  const double rate = model.arrivals.update(now);
  for (const auto& slot : model.levels) {
    const LevelRuntime* const level = slot->runtime();
    if (level == nullptr) continue;
    model.ladder.tell(ladder::Prediction{slot->config.level, level->queue->predicted_p99(rate)});
  }
}

}  // namespace

Prober::Prober(const Clock& clock, const Workers* workers, Observer observer)
    : clock_(clock), workers_(workers), observer_(std::move(observer)) {}

Prober::~Prober() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
}

void Prober::watch(const std::shared_ptr<Model>& model) {
  const MutexLock lock(mutex_);
  new_.push_back(model);
}

void Prober::start() {
  thread_ = std::jthread([this] {
    const MutexLock lock(mutex_);
    while (!stopping_) {
      mutex_.unlock();
      round();
      mutex_.lock();
      if (!stopping_) stop_.wait_for(mutex_, kRound);
    }
  });
  pthread_setname_np(thread_.native_handle(), "prober");
}

void Prober::take_new() {
  std::vector<std::weak_ptr<Model>> fresh;
  {
    const MutexLock lock(mutex_);
    fresh.swap(new_);
  }
  for (auto& weak : fresh) {
    const auto model = weak.lock();
    if (model == nullptr) continue;
    ModelWatch watch(model->name, model->version, model->config);
    const bool waits = std::ranges::any_of(
        watched_, [&](const Watched& older) { return older.watch.same_as(watch); });
    watched_.push_back(
        {std::move(weak), std::vector<TimePoint>(model->levels.size()), std::move(watch), waits});
  }
}

void Prober::tell(std::vector<Event> events) const {
  for (Event& event : events) {
    event.at = wall_now();
    observer_(event);
  }
}

void Prober::round() {
  for (Watched& one : watched_) {
    const auto model = one.model.lock();
    one.goes = model == nullptr || model->leaves;
  }
  take_new();  // who takes the place of one that goes is there by now
  for (auto at = watched_.begin(); at != watched_.end();) {
    const auto model = at->model.lock();
    if (at->goes || model == nullptr) {
      part(at);
      at = watched_.erase(at);
      continue;
    }
    probe_levels(model, at->next);
    if (observer_ && !at->waits) {
      tell(at->watch.look(model->ladder.standing(), clock_.now()));
    }
    ++at;
  }
  if (observer_ && workers_ != nullptr) tell(workers_watch_.look(workers_->all()));
}

void Prober::part(std::list<Watched>::iterator from) {
  if (from->waits) return;  // nothing of it was told
  const auto next = std::find_if(std::next(from), watched_.end(), [&](const Watched& newer) {
    return newer.watch.same_as(from->watch);
  });
  if (next == watched_.end()) return tell(from->watch.end());
  next->waits = false;
  tell(next->watch.succeed(from->watch));
}

void Prober::probe_levels(const std::shared_ptr<Model>& model, std::vector<TimePoint>& next) {
  predict(*model, clock_.now());
  model->ladder.tick();
  for (std::size_t i = 0; i < model->levels.size(); ++i) {
    LevelSlot& slot = *model->levels[i];
    const TimePoint now = clock_.now();
    if (slot.runtime() == nullptr || slot.gone() || slot.differs || now < next[i]) continue;
    const bool level_too = model->ladder.wants_probe(slot.config.level);
    if (slot.probing || (!level_too && !leaves_devices_alone(slot))) continue;
    slot.probing = true;
    next[i] = now + model->config.policy.probe_every;
    slot.runtime()->queue->probe([model, &slot, level_too, &clock = clock_] {
      probe_what_is_wanted(*model, slot, level_too, clock);
    });
  }
}

}  // namespace gradus::serving
