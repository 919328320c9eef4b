#include "serving/prober.h"

#include <pthread.h>

#include <utility>

#include "runtime/sample_inputs.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr auto kRound = 200ms;  // how finely probes and ticks are timed

bool run_like_requests(Model& model, const LevelRuntime& level) {
  const auto inputs = runtime::sample_inputs(model.shapes.next(level.signature()), 1);
  return level.run(runtime::views_of(inputs), level.all_outputs()).has_value();
}

void probe(Model& model, LevelSlot& slot, const Clock& clock) {
  struct Done {
    LevelSlot& slot;
    ~Done() { slot.probing = false; }
  };
  const Done whatever_happens{slot};
  const TimePoint begun = clock.now();
  const LevelRuntime& level = *slot.runtime();
  const bool canary = model.ladder.canary() == slot.config.level;
  const bool ok = canary ? run_like_requests(model, level) : level.run_sample().has_value();
  const TimePoint ended = clock.now();
  if (ok && !canary) level.queue->probed(level.sample_kind, ended - begun);
  model.ladder.tell(
      ladder::Probe{.level = slot.config.level, .at = ended, .run = ended - begun, .ok = ok});
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
  for (const auto& slot : model->levels) watched_.push_back({model, slot.get(), {}});
  if (observer_) seen_.push_back({model, ModelWatch(model->name, model->config)});
}

void Prober::start() {
  thread_ = std::jthread([this] {
    const MutexLock lock(mutex_);
    while (!stopping_) {
      mutex_.unlock();
      round();
      if (observer_) tell_changes();
      mutex_.lock();
      if (!stopping_) stop_.wait_for(mutex_, kRound);
    }
  });
  pthread_setname_np(thread_.native_handle(), "prober");
}

void Prober::tell(std::vector<Event> events) const {
  for (Event& event : events) {
    event.at = wall_now();
    observer_(event);
  }
}

void Prober::tell_changes() {
  for (Seen& seen : seen_) tell(seen.watch.look(seen.model->ladder.standing(), clock_.now()));
  if (workers_ != nullptr) tell(workers_watch_.look(workers_->all()));
}

void Prober::round() {
  for (Watched& watched : watched_) {
    Model& model = *watched.model;
    LevelSlot& slot = *watched.slot;
    if (&slot == model.levels.front().get()) {
      predict(model, clock_.now());
      model.ladder.tick();
    }
    const TimePoint now = clock_.now();
    if (slot.runtime() == nullptr || slot.gone || slot.differs || now < watched.next) continue;
    if (slot.probing || !model.ladder.wants_probe(slot.config.level)) continue;
    slot.probing = true;
    watched.next = now + model.config.policy.probe_every;
    slot.runtime()->queue->probe(
        [shared = watched.model, &slot, &clock = clock_] { probe(*shared, slot, clock); });
  }
}

}  // namespace gradus::serving
