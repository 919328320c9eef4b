// The engine: all models of the repositories, brought up in the background and served down their
// ladders from the first moment.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/server_config.h"
#include "metrics/values.h"
#include "serving/deadline_timer.h"
#include "serving/engine.h"
#include "serving/lanes.h"
#include "serving/level_loader.h"
#include "serving/model.h"
#include "serving/observer.h"
#include "serving/prober.h"
#include "serving/repository.h"
#include "serving/workers.h"

namespace gradus::serving {

class LadderEngine final : public Engine {
 public:
  struct Options {
    int cpus = 1;              // usable CPUs: concurrent runs and loads
    batch::QueueLimits queue;  // of each level, where its model says nothing else
    // How isolated levels' workers are started; nothing: every level runs in this process.
    std::optional<worker::Supervisor::Options> workers;
    Observer observer;  // of all models and workers; may be empty
    // Triton's ModelConfig as JSON; empty: it cannot be shown.
    std::function<Result<std::string>(const config::ModelConfig&, const ModelInfo&)> describe;
  };

  /// Returns at once; the folders' models load in the background.
  /// @param memory for joined requests; where levels are isolated, the one that their workers map
  LadderEngine(std::vector<ModelFolder> folders, LoadFn load, Options options, const Clock& clock,
               worker::SharedPool& memory);
  /// Waits for loads and runs that are under way.
  ~LadderEngine() override;

  /// From now on not ready; everything is still answered.
  void begin_drain() { draining_ = true; }
  bool loading() const;
  /// How many have been asked for so far.
  std::uint64_t inferences() const { return inferences_.load(std::memory_order_relaxed); }

  bool live() const override { return true; }
  bool ready() const override;
  std::vector<std::string> model_names() const override;
  Result<void> model_ready(std::string_view model, std::string_view version) const override;
  Result<ModelInfo> model_info(std::string_view model, std::string_view version) const override;
  Result<std::string> ladder_json(std::string_view model, std::string_view version) const override;
  Result<std::string> command(std::string_view model, std::string_view version,
                              const LadderCommand& command) override;
  std::string workers_json() const override;
  std::string metrics_text(std::vector<metrics::ReceiverView> receivers) const override;
  std::vector<IndexEntry> index() const override;
  void load(LoadModel what, Managed done) override;
  void unload(const std::string& model, Managed done) override;
  Result<std::string> config_json(std::string_view model, std::string_view version) const override;
  Result<std::vector<ModelStatistics>> statistics(std::string_view model,
                                                  std::string_view version) const override;
  void refused(std::string_view model, std::string_view version, Code code) override;
  Ticket infer(Request request, Done done) override;

 private:
  struct Load {
    Model* model;
    LevelSlot* slot;
  };

  Result<std::shared_ptr<Model>> find(std::string_view model, std::string_view version) const;
  void load_all(bool on_gpu);
  bool may_come_late(const Load& load) const;
  void retry_until_stopped();
  Loading loading_with() { return {load_, workers_.get(), lanes_, queue_limits_, memory_, clock_}; }

  const Clock& clock_;
  const LoadFn load_;
  const std::function<Result<std::string>(const config::ModelConfig&, const ModelInfo&)> describe_;
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> inferences_{0};
  metrics::ServerMetrics metrics_;

  // Fixed after construction, so that requests need no lock to find a model.
  std::map<std::string, std::shared_ptr<Model>, std::less<>> models_;
  std::map<std::string, std::string, std::less<>> broken_;  // name -> why

  DeadlineTimer timer_;
  const std::unique_ptr<Workers> workers_;  // null: every level runs in this process
  worker::SharedPool& memory_;
  const batch::QueueLimits queue_limits_;
  Lanes lanes_;
  Prober prober_;

  Mutex loads_mutex_;
  std::vector<Load> cpu_loads_ GUARDED_BY(loads_mutex_);  // taken from the back, quickest last
  std::vector<Load> gpu_loads_ GUARDED_BY(loads_mutex_);
  std::vector<Load> late_ GUARDED_BY(loads_mutex_);  // isolated ones that failed; tried again
  bool stopping_ GUARDED_BY(loads_mutex_) = false;
  CondVar stop_;
  std::vector<std::jthread> loaders_;
};

}  // namespace gradus::serving
