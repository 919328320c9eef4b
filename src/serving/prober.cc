#include "serving/prober.h"

#include <pthread.h>

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr auto kRound = 200ms;  // how finely probes and ticks are timed

void probe(Model& model, LevelSlot& slot, const Clock& clock) {
  struct Done {
    LevelSlot& slot;
    ~Done() { slot.probing = false; }
  };
  const Done whatever_happens{slot};
  const TimePoint begun = clock.now();
  const bool ok = slot.runtime()->run_sample().has_value();
  const TimePoint ended = clock.now();
  if (ok) slot.runtime()->queue->probed(slot.runtime()->sample_kind, ended - begun);
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

Prober::Prober(const Clock& clock) : clock_(clock) {}

Prober::~Prober() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
}

void Prober::watch(const std::shared_ptr<Model>& model) {
  for (const auto& slot : model->levels) watched_.push_back({model, slot.get(), {}});
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
