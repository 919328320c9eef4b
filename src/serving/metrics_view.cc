#include "serving/metrics_view.h"

#include <initializer_list>
#include <utility>

namespace gradus::serving {
namespace {

template <class Enum>
metrics::StateView state_view(std::initializer_list<Enum> all, Enum is) {
  metrics::StateView view;
  for (const Enum one : all) view.all.emplace_back(to_string(one));
  view.is = to_string(is);
  return view;
}

metrics::StateView view_of(ladder::Condition condition) {
  using enum ladder::Condition;
  return state_view({kLoading, kReady, kUnavailable, kSkipped, kDisabled}, condition);
}

metrics::StateView view_of(ladder::BreakerState breaker) {
  using enum ladder::BreakerState;
  return state_view({kClosed, kOpen, kHalfOpen}, breaker);
}

metrics::StateView view_of(worker::WorkerState state) {
  using enum worker::WorkerState;
  return state_view({kIdle, kStarting, kRunning, kWaiting, kCrashLoop, kStopped}, state);
}

metrics::LevelView view_of(const LevelSlot& slot, const ladder::LevelStatus& status) {
  metrics::LevelView view;
  view.level = status.level;
  view.values = &slot.metrics;
  view.state = view_of(status.condition);
  view.breaker = view_of(status.breaker);
  view.canary_share = status.canary_share.value_or(0);
  if (const LevelRuntime* const runtime = slot.runtime()) {
    const LevelQueue::Load load = runtime->queue->load();
    view.waiting = load.waiting;
    view.batch_size = load.batch_size;
  }
  return view;
}

metrics::ModelView view_of(const Model& model) {
  const ladder::Status status = model.ladder.status();
  metrics::ModelView view;
  view.name = model.name;
  view.version = model.version;
  view.values = &model.metrics;
  view.current = status.current;
  view.pinned = status.pinned;
  view.degraded = status.degraded;
  view.saturated = status.saturated;
  view.urgent = status.urgent;
  for (const ladder::LevelStatus& level : status.levels) {
    view.levels.push_back(view_of(*model.slot(level.level), level));
  }
  for (const auto& [kind, count] : model.ladder.move_counts()) {
    view.transitions.push_back({kind.from, kind.to, ladder::to_string(kind.cause), count});
  }
  return view;
}

}  // namespace

metrics::View metrics_view(const metrics::ServerMetrics& values,
                           const std::vector<std::shared_ptr<Model>>& models,
                           const Workers* workers) {
  metrics::View view;
  view.values = &values;
  for (const auto& model : models) view.models.push_back(view_of(*model));
  if (workers != nullptr) {
    for (const worker::WorkerStatus& worker : workers->all()) {
      view.workers.push_back(
          {worker.device, view_of(worker.state), worker.restarts, worker.abandoned});
    }
  }
  return view;
}

}  // namespace gradus::serving
