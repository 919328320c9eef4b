// The text that Prometheus scrapes (its text format 0.0.4), made of counted values and of what else
// is known at that moment. The names are a promise: docs/metrics.md has a row for each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/values.h"

namespace gradus::metrics {

/// One of several states, shown as one series for each with value 1 or 0.
struct StateView {
  std::vector<std::string_view> all;
  std::string_view is;  // one of them
};

struct LevelView {
  int level = 0;
  const LevelMetrics* values = nullptr;  // never null
  StateView state;
  StateView breaker;
  std::size_t waiting = 0;       // requests
  std::uint32_t batch_size = 1;  // samples that are joined at present, at most
  double canary_share = 0;       // of live traffic, 0..1; 0: no canary
};

struct TransitionView {
  std::optional<int> from;  // nothing: no level could answer
  std::optional<int> to;
  std::string_view cause;
  std::uint64_t count = 0;
};

struct ModelView {
  std::string name;
  std::string version;
  const ModelMetrics* values = nullptr;  // never null
  std::optional<int> current;            // nothing: no level can answer
  std::optional<int> pinned;             // by an operator; nothing: none
  bool degraded = false;
  bool saturated = false;
  bool urgent = false;
  std::vector<LevelView> levels;  // best first
  std::vector<TransitionView> transitions;
};

struct WorkerView {
  std::string device;
  StateView state;
  std::uint32_t restarts = 0;
  int abandoned = 0;
};

/// Who is told of alerts, and of how many events.
struct ReceiverView {
  std::string receiver;  // alertmanager, webhook
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;
  std::uint64_t waiting = 0;
  std::uint64_t failed_tries = 0;
};

/// Of the whole server; what it points at outlives it.
struct View {
  const ServerMetrics* values = nullptr;  // never null
  std::vector<ModelView> models;
  std::vector<WorkerView> workers;
  std::vector<ReceiverView> receivers;
};

/// The content type that goes with it.
inline constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

std::string exposition(const View& view);

}  // namespace gradus::metrics
