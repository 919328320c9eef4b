// The engine: all models of the repositories, brought up in the background and served down their
// ladders from the first moment.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/server_config.h"
#include "metrics/values.h"
#include "serving/catalog.h"
#include "serving/deadline_timer.h"
#include "serving/engine.h"
#include "serving/janitor.h"
#include "serving/lanes.h"
#include "serving/level_loader.h"
#include "serving/loaders.h"
#include "serving/model_manager.h"
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

  /// Returns at once; models load in the background.
  /// @param folders what is there now
  /// @param repository where models are looked for later; nothing: none can be loaded
  /// @param server its mode, and what is loaded at the start
  /// @param memory for joined requests; where levels are isolated, the one that their workers map
  LadderEngine(std::vector<ModelFolder> folders, std::optional<Repository> repository,
               const config::ServerConfig& server, LoadFn load, Options options, const Clock& clock,
               worker::SharedPool& memory);
  /// Waits for loads and runs that are under way.
  ~LadderEngine() override;

  /// From now on not ready; everything is still answered, loads with kUnavailable.
  void begin_drain();
  bool loading() const { return catalog_.loading(); }
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
  std::shared_ptr<Model> make(const ModelFolder& folder, const ModelVersion& version);

  const Clock& clock_;
  const LoadFn load_;
  const Options options_;
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> inferences_{0};
  metrics::ServerMetrics metrics_;

  // Each uses those before it.
  DeadlineTimer timer_;
  const std::unique_ptr<Workers> workers_;  // null: every level runs in this process
  Lanes lanes_;
  Janitor janitor_;
  Prober prober_;
  Catalog catalog_;
  Loaders loaders_;
  ModelManager manager_;
};

}  // namespace gradus::serving
