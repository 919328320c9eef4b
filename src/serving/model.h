// One model as it is served: its levels, what each has loaded so far, and its ladder. Requests hold
// it by shared_ptr while they run, so nothing that a request needs disappears under it.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/model_config.h"
#include "runtime/backend.h"
#include "serving/ladder_driver.h"
#include "serving/run_lane.h"

namespace gradus::serving {

/// A level that is loaded: what runs it, where, and how its tensors map to the model's signature.
struct LevelRuntime {
  std::unique_ptr<runtime::Backend> backend;
  RunLane* lane = nullptr;                // never null once published; owned by Lanes
  std::vector<std::size_t> input_order;   // backend input i is the signature's input input_order[i]
  std::vector<std::size_t> output_order;  // signature output i is the backend's output_order[i]
  bool on_gpu = false;
  std::string provider_used;
  double node_share = 0;  // of the graph's nodes on provider_used, 0..1
};

/// A level's place in the model; filled once, by a loader thread, while requests already run
/// elsewhere.
class LevelSlot {
 public:
  explicit LevelSlot(config::LevelConfig level) : config(std::move(level)) {}

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

  std::atomic<bool> probing{false};  // a probe of it waits or runs

 private:
  std::unique_ptr<const LevelRuntime> runtime_;
  std::atomic<const LevelRuntime*> published_{nullptr};
  mutable Mutex mutex_;
  std::string note_ GUARDED_BY(mutex_);
};

class Model {
 public:
  Model(std::string name, std::string version, std::filesystem::path files,
        config::ModelConfig config, const Clock& clock);

  const std::string name;
  const std::string version;
  const std::filesystem::path files;
  const config::ModelConfig config;
  std::vector<std::unique_ptr<LevelSlot>> levels;  // ascending by level; fixed after construction
  LadderDriver ladder;

  /// Null until a level is loaded; set once by the first, then constant.
  const runtime::Signature* signature() const { return published_.load(std::memory_order_acquire); }
  /// The first call sets the signature; later ones check that the level's agrees.
  /// @return how the level's tensors map, or kInvalid saying what differs
  struct TensorOrder {
    std::vector<std::size_t> inputs, outputs;  // as in LevelRuntime
  };
  Result<TensorOrder> adopt(const runtime::Signature& of_level);

  LevelSlot* slot(int level) const;  // null: no such level

  std::atomic<int> loading;      // levels that have neither come up nor failed yet …
  std::atomic<int> cpu_loading;  // … of those that no GPU provider may run
  Mutex arrival;                 // loader threads take turns to warm and measure levels

  /// Inputs that every level is warmed, measured and probed with, in the signature's order; empty
  /// until a level is loaded, constant from then on.
  std::span<const TensorView> sample() const { return sample_views_; }
  /// Before the first level is published. @param size as runtime::sample_inputs takes it
  void set_sample(std::int64_t size);

 private:
  mutable Mutex mutex_;
  std::unique_ptr<const runtime::Signature> signature_ GUARDED_BY(mutex_);
  std::atomic<const runtime::Signature*> published_{nullptr};
  std::vector<Tensor> sample_;
  std::vector<TensorView> sample_views_;
};

/// Runs a loaded level: `inputs` and the result are in the order of the model's signature,
/// `outputs` are indices into it.
Result<std::vector<Tensor>> run_level(const LevelRuntime& level, std::span<const TensorView> inputs,
                                      std::span<const std::size_t> outputs);

}  // namespace gradus::serving
