#include "metrics/exposition.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <deque>
#include <initializer_list>
#include <utility>

namespace gradus::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kNsPerSecond = 1e9;

constexpr std::array kTritonReasons = {"REJECTED", "CANCELED", "BACKEND", "OTHER"};

const char* triton_reason(Code code) {
  switch (code) {
    case Code::kOverloaded:
    case Code::kDeadline:
      return "REJECTED";
    case Code::kCancelled:
      return "CANCELED";
    case Code::kUnavailable:
    case Code::kInternal:
    case Code::kWorkerLost:
      return "BACKEND";
    case Code::kInvalid:
    case Code::kNotFound:
      return "OTHER";
  }
  std::abort();
}

std::string level_text(const std::optional<int>& level) {
  return level ? std::to_string(*level) : "none";
}

Labels with(Labels labels, std::initializer_list<ClientMetric::Label> more) {
  labels.insert(labels.end(), more);
  return labels;
}

// A family that is filled series by series.
class Family {
 public:
  Family(MetricType type, const char* name, const char* help) {
    family_.type = type;
    family_.name = name;
    family_.help = help;
  }

  void add(Labels labels, double value) {
    ClientMetric& series = append(std::move(labels));
    (family_.type == MetricType::Counter ? series.counter.value : series.gauge.value) = value;
  }
  void add(Labels labels, std::uint64_t value) {
    add(std::move(labels), static_cast<double>(value));
  }
  void add(Labels labels, bool value) { add(std::move(labels), value ? 1.0 : 0.0); }

  void add(Labels labels, const Histogram& values) {
    ClientMetric::Histogram& shown = append(std::move(labels)).histogram;
    shown.bucket.reserve(kBuckets);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < kBounds.size(); ++i) {
      count += values.in_bucket(i);
      shown.bucket.push_back({count, static_cast<double>(kBounds[i]) / kNsPerSecond});
    }
    shown.sample_count = count + values.in_bucket(kBounds.size());
    shown.sample_sum = static_cast<double>(values.sum_ns()) / kNsPerSecond;
  }

  void add(const Labels& labels, const StateView& states) {
    for (const std::string_view state : states.all) {
      add(with(labels, {{"state", std::string(state)}}), state == states.is);
    }
  }
  void add(const Labels& labels, const FailureCounts& counts) {
    for (const Code code : kCodes) {
      add(with(labels, {{"class", to_string(code)}}), counts.of(code));
    }
  }
  void add(const Labels& labels, const std::array<Counter, kPhases.size()>& counts) {
    for (const Phase phase : kPhases) {
      add(with(labels, {{"phase", to_string(phase)}}),
          counts[static_cast<std::size_t>(phase)].value());
    }
  }

  const MetricFamily& get() const { return family_; }

 private:
  ClientMetric& append(Labels labels) {
    family_.metric.emplace_back().label = std::move(labels);
    return family_.metric.back();
  }

  MetricFamily family_;
};

// All families, in the order in which they are shown.
class Families {
 public:
  Family& counter(const char* name, const char* help) {
    return all_.emplace_back(MetricType::Counter, name, help);
  }
  Family& gauge(const char* name, const char* help) {
    return all_.emplace_back(MetricType::Gauge, name, help);
  }
  Family& histogram(const char* name, const char* help) {
    return all_.emplace_back(MetricType::Histogram, name, help);
  }

  std::string text() const {
    std::vector<MetricFamily> families;
    for (const Family& family : all_) families.push_back(family.get());
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  std::deque<Family> all_;  // whose elements stay where they are
};

struct Serving {
  Families& all;
  Family& requests =
      all.counter("gradus_serving_requests_total", "Requests that the level answered.");
  Family& failures = all.counter("gradus_serving_failures_total",
                                 "Requests to the model that got no answer, by class of error.");
  Family& unknown =
      all.counter("gradus_serving_unknown_model_total",
                  "Requests that named no model or version that is served, by class of error.");
  Family& latency = all.histogram("gradus_serving_latency_seconds",
                                  "From a request's arrival to its answer by the level.");
  Family& queue = all.histogram("gradus_serving_queue_seconds",
                                "How long requests that the level answered waited to be run.");
  Family& run =
      all.histogram("gradus_serving_run_seconds", "How long the run took that answered a request.");
  Family& runs =
      all.counter("gradus_serving_runs_total",
                  "Runs of the level for requests, joined ones once, that gave outputs.");
  Family& failed_runs =
      all.counter("gradus_serving_failed_runs_total",
                  "Runs of the level for requests that failed, by class of error.");
  Family& samples =
      all.counter("gradus_serving_samples_total", "Samples in the runs that gave outputs.");
  Family& busy = all.counter("gradus_serving_busy_seconds_total",
                             "Time that runs for requests took, joined ones once.");
  Family& deadlines =
      all.counter("gradus_serving_deadline_misses_total",
                  "Requests whose deadline passed while they waited for the level or ran on it.");
  Family& cancels =
      all.counter("gradus_serving_cancelled_total",
                  "Requests whose client left while they waited for the level or ran on it.");
  Family& hedges = all.counter("gradus_serving_hedges_total",
                               "Requests for which the level was started beside another one.");
  Family& hedges_won =
      all.counter("gradus_serving_hedges_won_total",
                  "Requests that the level, started beside another one, answered first.");
  Family& waiting =
      all.gauge("gradus_serving_waiting_requests", "Requests that wait for the level.");
  Family& batch = all.gauge("gradus_serving_batch_size_samples",
                            "How many samples are joined into one run at present, at most.");

  void add(const Labels& of, const LevelView& level) {
    const LevelMetrics& values = *level.values;
    requests.add(of, values.latency.count());
    latency.add(of, values.latency);
    queue.add(of, values.queue);
    run.add(of, values.run);
    runs.add(of, values.runs.value());
    failed_runs.add(of, values.failed_runs);
    samples.add(of, values.samples.value());
    busy.add(of, static_cast<double>(values.busy_ns.value()) / kNsPerSecond);
    deadlines.add(of, values.deadlines);
    cancels.add(of, values.cancels);
    hedges.add(of, values.hedges.value());
    hedges_won.add(of, values.hedges_won.value());
    waiting.add(of, static_cast<std::uint64_t>(level.waiting));
    batch.add(of, static_cast<std::uint64_t>(level.batch_size));
  }
};

struct Ladder {
  Families& all;
  Family& current = all.gauge("gradus_ladder_current_level",
                              "The level that requests start at; -1: no level can answer.");
  Family& pinned =
      all.gauge("gradus_ladder_pinned_level", "The level that an operator has pinned, if any.");
  Family& degraded = all.gauge("gradus_ladder_degraded",
                               "1: the current level is worse than the best one that is wanted.");
  Family& saturated =
      all.gauge("gradus_ladder_saturated",
                "1: the current level cannot carry the load, and no lower one would do better.");
  Family& urgent =
      all.gauge("gradus_ladder_urgent",
                "1: requests that would take a better level are being answered by the last.");
  Family& state = all.gauge("gradus_ladder_level_state", "1 for the state that the level is in.");
  Family& breaker = all.gauge("gradus_ladder_breaker_state",
                              "1 for the state that the level's circuit breaker is in.");
  Family& canary =
      all.gauge("gradus_ladder_canary_share",
                "Share of live traffic that tries the level before its promotion, 0..1.");
  Family& transitions =
      all.counter("gradus_ladder_transitions_total",
                  "Changes of the current level, by cause; from or to `none`: no level.");

  void add(const Labels& of, const ModelView& model) {
    current.add(of, static_cast<double>(model.current.value_or(-1)));
    if (model.pinned) pinned.add(of, static_cast<double>(*model.pinned));
    degraded.add(of, model.degraded);
    saturated.add(of, model.saturated);
    urgent.add(of, model.urgent);
    for (const TransitionView& move : model.transitions) {
      transitions.add(with(of, {{"from", level_text(move.from)},
                                {"to", level_text(move.to)},
                                {"cause", std::string(move.cause)}}),
                      move.count);
    }
  }
  void add(const Labels& of, const LevelView& level) {
    state.add(of, level.state);
    breaker.add(of, level.breaker);
    canary.add(of, level.canary_share);
  }
};

struct Workers {
  Families& all;
  Family& restarts = all.counter("gradus_worker_restarts_total",
                                 "Processes started for the device beyond the first.");
  Family& state =
      all.gauge("gradus_worker_state", "1 for the state that the device's worker is in.");
  Family& abandoned = all.gauge("gradus_worker_abandoned_processes",
                                "Processes that did not end when they were killed.");

  void add(const WorkerView& worker) {
    const Labels of = {{"device", worker.device}};
    restarts.add(of, static_cast<std::uint64_t>(worker.restarts));
    state.add(of, worker.state);
    abandoned.add(of, static_cast<double>(worker.abandoned));
  }
};

struct Alerts {
  Families& all;
  Family& sent =
      all.counter("gradus_alerts_sent_events_total", "Events that the receiver has taken.");
  Family& dropped =
      all.counter("gradus_alerts_dropped_events_total",
                  "Events that the receiver will never get: it refused them, or too many waited.");
  Family& failed =
      all.counter("gradus_alerts_failed_tries_total", "Tries to reach the receiver that failed.");
  Family& waiting = all.gauge("gradus_alerts_waiting_events", "Events that are still to be sent.");

  void add(const ReceiverView& receiver) {
    const Labels of = {{"receiver", receiver.receiver}};
    sent.add(of, receiver.sent);
    dropped.add(of, receiver.dropped);
    failed.add(of, receiver.failed_tries);
    waiting.add(of, receiver.waiting);
  }
};

// The names of Triton Inference Server, as far as they mean something here.
struct Triton {
  Families& all;
  Family& success = all.counter("nv_inference_request_success", "Requests that were answered.");
  Family& failure = all.counter("nv_inference_request_failure",
                                "Requests that got no answer, by Triton's reasons.");
  Family& count = all.counter("nv_inference_count", "Samples in runs that gave outputs.");
  Family& executions =
      all.counter("nv_inference_exec_count", "Runs that gave outputs, joined ones once.");
  Family& duration = all.counter("nv_inference_request_duration_us",
                                 "Microseconds from arrival to answer, of answered requests.");
  Family& queue = all.counter("nv_inference_queue_duration_us",
                              "Microseconds that answered requests waited to be run.");
  Family& compute =
      all.counter("nv_inference_compute_infer_duration_us",
                  "Microseconds of the runs that answered, once for each request in them.");
  Family& pending =
      all.gauge("nv_inference_pending_request_count", "Requests that wait to be run.");

  void add(const Labels& of, const ModelView& model) {
    std::uint64_t requests = 0, samples = 0, runs = 0, latency_ns = 0, queue_ns = 0, run_ns = 0;
    std::uint64_t waiting = 0;
    for (const LevelView& level : model.levels) {
      const LevelMetrics& values = *level.values;
      requests += values.latency.count();
      samples += values.samples.value();
      runs += values.runs.value();
      latency_ns += values.latency.sum_ns();
      queue_ns += values.queue.sum_ns();
      run_ns += values.run.sum_ns();
      waiting += level.waiting;
    }
    success.add(of, requests);
    for (const std::string_view reason : kTritonReasons) {
      std::uint64_t failures = 0;
      for (const Code code : kCodes) {
        if (triton_reason(code) == reason) failures += model.values->failures.of(code);
      }
      failure.add(with(of, {{"reason", std::string(reason)}}), failures);
    }
    count.add(of, samples);
    executions.add(of, runs);
    duration.add(of, latency_ns / 1000);
    queue.add(of, queue_ns / 1000);
    compute.add(of, run_ns / 1000);
    pending.add(of, waiting);
  }
};

}  // namespace

const char* to_string(Code code) {
  switch (code) {  // a new code belongs into kCodes as well
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kOverloaded:
      return "overloaded";
    case Code::kDeadline:
      return "deadline";
    case Code::kCancelled:
      return "cancelled";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kInternal:
      return "internal";
    case Code::kWorkerLost:
      return "worker_lost";
  }
  std::abort();
}

const char* to_string(Phase phase) { return phase == Phase::kQueued ? "queued" : "running"; }

std::string exposition(const View& view) {
  Families families;
  Serving serving{families};
  Ladder ladder{families};
  Workers workers{families};
  Alerts alerts{families};
  Triton triton{families};
  serving.unknown.add(Labels{}, view.values->failures);
  for (const ModelView& model : view.models) {
    const Labels of_model = {{"model", model.name}, {"version", model.version}};
    serving.failures.add(of_model, model.values->failures);
    ladder.add(of_model, model);
    triton.add(of_model, model);
    for (const LevelView& level : model.levels) {
      const Labels of_level = with(of_model, {{"level", std::to_string(level.level)}});
      serving.add(of_level, level);
      ladder.add(of_level, level);
    }
  }
  for (const WorkerView& worker : view.workers) workers.add(worker);
  for (const ReceiverView& receiver : view.receivers) alerts.add(receiver);
  return families.text();
}

}  // namespace gradus::metrics
