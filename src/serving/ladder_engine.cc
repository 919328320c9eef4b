#include "serving/ladder_engine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "serving/declared.h"
#include "serving/in_flight.h"
#include "serving/metrics_view.h"
#include "serving/statistics.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

// `pins model 'fashion' to level 2 for 900 s: new driver`.
std::string command_text(const std::string& model, const LadderCommand& command) {
  const std::string level = "level " + std::to_string(command.level) + " of model '" + model + "'";
  std::string text;
  switch (command.verb) {
    case LadderCommand::Verb::kPin:
      text = "pins " + level;
      if (command.how_long) {
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*command.how_long);
        text += " for " + std::to_string(seconds.count()) + " s";
      }
      break;
    case LadderCommand::Verb::kUnpin:
      text = "unpins model '" + model + "'";
      break;
    case LadderCommand::Verb::kDisable:
      text = "disables " + level;
      break;
    case LadderCommand::Verb::kEnable:
      text = "enables " + level;
      break;
  }
  return command.reason.empty() ? text : text + ": " + command.reason;
}

Result<void> obey(LadderDriver& ladder, const LadderCommand& command) {
  switch (command.verb) {
    case LadderCommand::Verb::kPin:
      return ladder.pin(command.level, command.how_long, command.reason);
    case LadderCommand::Verb::kUnpin:
      ladder.unpin();
      return {};
    case LadderCommand::Verb::kDisable:
      return ladder.disable(command.level, command.reason);
    case LadderCommand::Verb::kEnable:
      return ladder.enable(command.level);
  }
  std::abort();
}

}  // namespace

LadderEngine::LadderEngine(std::vector<ModelFolder> folders, std::optional<Repository> repository,
                           const config::ServerConfig& server, LoadFn load, Options options,
                           const Clock& clock, worker::SharedPool& memory)
    : clock_(clock),
      load_(std::move(load)),
      options_(std::move(options)),
      timer_(clock),
      workers_(options_.workers ? std::make_unique<Workers>(*options_.workers, clock) : nullptr),
      lanes_(options_.cpus, clock),
      janitor_([this] {
        if (workers_ != nullptr) workers_->end_unowned();
      }),
      prober_(clock, workers_.get(), options_.observer),
      catalog_({.make = [this](const auto& folder,
                               const auto& version) { return make(folder, version); },
                .bring_up = [this](const auto& models) { loaders_.bring_up(models); },
                .left = [this] { loaders_.drop_left(); }}),
      loaders_(options_.cpus, {load_, workers_.get(), lanes_, options_.queue, memory, clock},
               [this](const auto& model) { catalog_.settle(model); }),
      manager_(std::move(repository), server, catalog_, clock) {
  manager_.take(std::move(folders));
  manager_.start();
  prober_.start();
}

LadderEngine::~LadderEngine() {
  manager_.stop();
  loaders_.stop();
  timer_.stop();  // what is due may go to any lane
  lanes_.stop();
  catalog_.clear();
}

std::shared_ptr<Model> LadderEngine::make(const ModelFolder& folder, const ModelVersion& version) {
  auto model = janitor_.adopt(std::make_unique<Model>(folder.name, version.text(), version.files,
                                                      version.config, clock_, options_.observer));
  model->keep = folder.keep;
  prober_.watch(model);  // before the one that it takes the place of leaves
  return model;
}

void LadderEngine::begin_drain() {
  draining_ = true;
  manager_.refuse();
  catalog_.answer_loads();
}

bool LadderEngine::ready() const { return !draining_ && catalog_.served().ready(); }

std::vector<std::string> LadderEngine::model_names() const { return catalog_.served().names(); }

Result<void> LadderEngine::model_ready(std::string_view model, std::string_view version) const {
  const auto found = catalog_.served().find(model, version);
  if (!found) return tl::unexpected(found.error());
  if ((*found)->ladder.can_answer()) return {};
  return fail(Code::kUnavailable, why_not_served(**found));
}

Result<ModelInfo> LadderEngine::model_info(std::string_view model, std::string_view version) const {
  const auto found = catalog_.served().find(model, version);
  if (!found) return tl::unexpected(found.error());
  const runtime::Signature* const signature = (*found)->signature();
  if (signature == nullptr) return fail(Code::kUnavailable, why_not_served(**found));
  const config::ModelConfig& config = (*found)->config;
  runtime::Signature shown = shown_signature(config.declared, *signature);
  const bool batched = is_batched(config.declared, shown);
  return ModelInfo{(*found)->name,    catalog_.served().versions(model),
                   (*found)->version, std::move(shown),
                   batched,           config.labels};
}

Result<std::string> LadderEngine::ladder_json(std::string_view model,
                                              std::string_view version) const {
  const auto found = catalog_.served().find(model, version);
  if (!found) return tl::unexpected(found.error());
  return serving::ladder_json(**found, workers_.get());
}

Result<std::string> LadderEngine::command(std::string_view model, std::string_view version,
                                          const LadderCommand& command) {
  const auto found = catalog_.served().find(model, version);
  if (!found) return tl::unexpected(found.error());
  if (const auto done = obey((*found)->ladder, command); !done) return tl::unexpected(done.error());
  log::info("an operator " + command_text((*found)->name, command),
            {{"event", "command"}, {"model", (*found)->name}, {"peer", command.who}});
  return serving::ladder_json(**found, workers_.get());
}

std::string LadderEngine::workers_json() const { return serving::workers_json(workers_.get()); }

std::string LadderEngine::metrics_text(std::vector<metrics::ReceiverView> receivers) const {
  const Catalog::Models models = catalog_.served().all();
  metrics::View view = metrics_view(metrics_, models, workers_.get());
  view.receivers = std::move(receivers);
  return metrics::exposition(view);
}

std::vector<IndexEntry> LadderEngine::index() const { return catalog_.index(); }

void LadderEngine::load(LoadModel what, Managed done) {
  manager_.load(std::move(what), std::move(done));
}

void LadderEngine::unload(const std::string& model, Managed done) {
  manager_.unload(model, std::move(done));
}

Result<std::string> LadderEngine::config_json(std::string_view model,
                                              std::string_view version) const {
  const auto found = catalog_.served().find(model, version);
  if (!found) return tl::unexpected(found.error());
  const auto info = model_info(model, version);
  if (!info) return tl::unexpected(info.error());
  return options_.describe((*found)->config, *info);
}

Result<std::vector<ModelStatistics>> LadderEngine::statistics(std::string_view model,
                                                              std::string_view version) const {
  Catalog::Models models = catalog_.served().all(model);
  if (!version.empty() || (models.empty() && !model.empty())) {
    auto found = catalog_.served().find(model, version);
    if (!found) return tl::unexpected(std::move(found.error()));
    models = {std::move(*found)};
  }
  std::vector<ModelStatistics> all;
  for (const auto& one : models) {
    // What never came up has nothing to count.
    if (one->signature() != nullptr) all.push_back(statistics_of(*one, clock_.now()));
  }
  return all;
}

void LadderEngine::refused(std::string_view model, std::string_view version, Code code) {
  const auto found = catalog_.served().find(model, version);
  found ? (*found)->metrics.failed(code) : metrics_.failed(found.error().code);
}

Ticket LadderEngine::infer(Request request, Done done) {
  inferences_.fetch_add(1, std::memory_order_relaxed);
  auto model = catalog_.served().find(request.model, request.version);
  if (!model) {
    metrics_.failed(model.error().code);
    done(tl::unexpected(model.error()));
    return {};
  }
  const auto refuse = [&](Code code, std::string why) {
    (*model)->metrics.failed(code, clock_.now() - request.arrival);
    done(fail(code, std::move(why)));
    return Ticket();
  };
  if ((*model)->signature() == nullptr) return refuse(Code::kUnavailable, why_not_served(**model));
  const int worst = (*model)->levels.back()->config.level;
  if (request.min_level > worst) {
    return refuse(Code::kInvalid, "min_level = " + std::to_string(request.min_level) + ": model '" +
                                      request.model + "' has no level worse than " +
                                      std::to_string(worst));
  }
  if (request.tier) {
    request.priority = 0;
  } else {
    const std::uint32_t levels = (*model)->config.priority_levels;
    // As Triton: one that is beyond the model's is as good as none.
    if (request.priority == 0 || (levels > 0 && request.priority > levels)) {
      request.priority = (*model)->config.default_priority;
    }
    request.tier = config::tier_of_priority(request.priority, levels);
    if (levels == 0) request.priority = std::min(request.priority, config::kLastPriority);
  }
  (*model)->arrivals.note();
  return InFlight::start(std::move(*model), std::move(request), std::move(done), clock_, timer_);
}

}  // namespace gradus::serving
