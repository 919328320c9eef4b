// One model as it is served: its levels, what each has loaded so far, and its ladder. Requests hold
// it by shared_ptr while they run, so nothing that a request needs disappears under it.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "batch/padding.h"
#include "config/model_config.h"
#include "metrics/values.h"
#include "runtime/backend.h"
#include "serving/arrival_rate.h"
#include "serving/ladder_driver.h"
#include "serving/level_queue.h"
#include "serving/output_contract.h"
#include "serving/recent_shapes.h"
#include "worker/shared_pool.h"

namespace gradus::serving {

/// A level that is loaded: what runs it, where, and the inputs it is warmed, measured and probed
/// with.
struct LevelRuntime {
  std::unique_ptr<runtime::Backend> backend;
  worker::SharedPool* memory = nullptr;   // for joined tensors; outlives the level
  std::optional<batch::Padding> padding;  // requests may be joined; nothing: each runs alone
  std::uint32_t max_batch_size = 1;       // as configured, or LevelSlot::largest_batch
  bool alone = false;                     // in a worker of its own (workers.h)
  bool single_only = false;               // its worker does not survive any batch
  bool on_gpu = false;
  std::string provider_used;
  double node_share = 0;  // of the graph's nodes on provider_used, 0..1
  std::vector<Tensor> sample;
  std::vector<TensorView> sample_views;
  ladder::Size sample_kind;  // what the estimates know the sample's run by
  OutputContract contract;
  OpenQueue queue;  // last: what runs uses the rest

  const runtime::Signature& signature() const { return backend->signature(); }
  /// As Backend::run, and holds the outputs to the contract.
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop = nullptr) const;
  /// Indices of all outputs.
  std::vector<std::size_t> all_outputs() const;
  /// The sample, all outputs.
  Result<std::vector<Tensor>> run_sample() const;
};

/// A level's place in the model; filled once, by a loader thread, while requests already run
/// elsewhere.
class LevelSlot {
 public:
  explicit LevelSlot(config::LevelConfig level)
      : config(std::move(level)), metrics(config.max_batch_size) {}

  const config::LevelConfig config;

  /// Null until loaded. Request path: one atomic load.
  const LevelRuntime* runtime() const { return published_.load(std::memory_order_acquire); }
  void publish(std::unique_ptr<const LevelRuntime> runtime) {
    runtime_ = std::move(runtime);
    published_.store(runtime_.get(), std::memory_order_release);
  }

  /// What came of the providers that were tried before the one that is used; for people.
  std::string note() const {
    const MutexLock lock(mutex_);
    return note_;
  }
  void set_note(std::string note) {
    const MutexLock lock(mutex_);
    note_ = std::move(note);
  }

  /// A load of it begins, whose worker's losses count from now on; those of an earlier, failed one
  /// may still be told. Any thread.
  std::uint64_t begin_load() {
    const MutexLock lock(mutex_);
    gone_ = false;
    return ++loads_;
  }
  /// Its worker is lost. False: that of an earlier load.
  bool set_gone(std::uint64_t load) {
    const MutexLock lock(mutex_);
    if (load != loads_) return false;
    gone_ = true;
    return true;
  }
  /// It is in a worker again. False: it was all the time, or is by an earlier load.
  bool set_back(std::uint64_t load) {
    const MutexLock lock(mutex_);
    return load == loads_ && gone_.exchange(false);
  }
  bool gone() const { return gone_; }  // lost, and not yet back

  /// In samples; less than all once a larger one ended a worker of the level's own. For whoever
  /// loads the level: one thread at a time.
  std::uint32_t largest_batch = UINT32_MAX;

  std::atomic<bool> probing{false};       // a probe of it waits or runs
  std::atomic<bool> differs{false};       // from the best level: it is none of this model's
  mutable metrics::LevelMetrics metrics;  // counting does not change the level

 private:
  std::unique_ptr<const LevelRuntime> runtime_;
  std::atomic<const LevelRuntime*> published_{nullptr};
  mutable Mutex mutex_;
  std::string note_ GUARDED_BY(mutex_);
  std::uint64_t loads_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> gone_{false};
};

class Model {
 public:
  Model(std::string name, std::string version, std::filesystem::path files,
        config::ModelConfig config, const Clock& clock, Observer observer = {});

  const std::string name;
  const std::string version;
  const std::filesystem::path files;
  const config::ModelConfig config;
  std::vector<std::unique_ptr<LevelSlot>> levels;  // ascending by level; fixed after construction
  LadderDriver ladder;
  ArrivalRate arrivals;
  RecentShapes shapes;  // while a level is a canary
  metrics::ModelMetrics metrics;

  /// Of the best level that is loaded; null until one is.
  const runtime::Signature* signature() const;

  LevelSlot* slot(int level) const;  // null: no such level

  std::atomic<bool> leaves{false};   // nobody finds it any more: no more of it needs to be loaded
  std::shared_ptr<const void> keep;  // its files, where they are not the repository's
  std::atomic<int> loading;          // levels that have neither come up nor failed yet …
  std::atomic<int> cpu_loading;      // … of those that no GPU provider may run
  Mutex arrival;                     // loader threads take turns to warm and measure levels
  std::int64_t sample_size GUARDED_BY(arrival) = 0;  // runtime::sample_inputs; 0: not found yet
};

/// Both use the CPU, or one accelerator: two runs at once would only slow each other down.
bool share_device(const config::LevelConfig& a, const config::LevelConfig& b);

/// What keeps two levels from being levels of one model: names, types or ranks that differ; "" if
/// nothing does. Dimensions may differ: a level that cannot take a request passes it on.
std::string difference(const runtime::Signature& better, const runtime::Signature& worse);

}  // namespace gradus::serving
