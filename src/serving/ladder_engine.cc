#include "serving/ladder_engine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "serving/in_flight.h"
#include "serving/metrics_view.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

// Between tries of isolated levels that could not be loaded; doubled each time.
constexpr Duration kFirstRetry = 5s;
constexpr Duration kLongestRetry = 5min;

std::uintmax_t file_size(const Model& model, const LevelSlot& slot) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(model.files / slot.config.file, ignored);
  return ignored ? 0 : size;
}

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

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : "; ") + fault;
  return text;
}

}  // namespace

LadderEngine::LadderEngine(std::vector<ModelFolder> folders, LoadFn load, Options options,
                           const Clock& clock, worker::SharedPool& memory)
    : clock_(clock),
      load_(std::move(load)),
      describe_(options.describe),
      timer_(clock),
      workers_(options.workers ? std::make_unique<Workers>(*options.workers, clock) : nullptr),
      memory_(memory),
      queue_limits_(options.queue),
      lanes_(options.cpus, clock),
      prober_(clock, workers_.get(), options.observer) {
  for (ModelFolder& folder : folders) {
    if (!folder.faults.empty()) {
      log::error("model '" + folder.name + "' is not served: " + joined(folder.faults));
      broken_.emplace(folder.name, joined(folder.faults));
      continue;
    }
    const auto model = std::make_shared<Model>(folder.name, folder.version, folder.files,
                                               std::move(folder.config), clock, options.observer);
    models_.emplace(folder.name, model);
    for (const auto& slot : model->levels) {
      (is_gpu_level(slot->config) ? gpu_loads_ : cpu_loads_).push_back({model.get(), slot.get()});
    }
    prober_.watch(model);
  }
  for (auto* loads : {&cpu_loads_, &gpu_loads_}) {
    std::ranges::stable_sort(*loads, std::ranges::greater{},
                             [](const Load& l) { return file_size(*l.model, *l.slot); });
  }
  for (int i = 0; i < options.cpus; ++i) loaders_.emplace_back([this] { load_all(false); });
  // One at a time: drivers compile on all cores, and a hung one must not hold up the CPU levels.
  loaders_.emplace_back([this] {
    load_all(true);
    retry_until_stopped();
  });
  prober_.start();
}

LadderEngine::~LadderEngine() {
  {
    const MutexLock lock(loads_mutex_);
    stopping_ = true;
    for (auto* loads : {&cpu_loads_, &gpu_loads_}) {
      for (const Load& load : *loads) end_loading(*load.model, *load.slot);
      loads->clear();
    }
  }
  stop_.notify_all();
  loaders_.clear();
  timer_.stop();  // what is due may go to any lane
}

void LadderEngine::load_all(bool on_gpu) {
  for (;;) {
    Load next{};
    {
      const MutexLock lock(loads_mutex_);
      auto& loads = on_gpu ? gpu_loads_ : cpu_loads_;
      if (loads.empty()) return;
      next = loads.back();
      loads.pop_back();
    }
    load_level(*next.model, *next.slot, loading_with());
    if (may_come_late(next)) {
      const MutexLock lock(loads_mutex_);
      late_.push_back(next);
    }
  }
}

bool LadderEngine::may_come_late(const Load& load) const {
  const config::LevelConfig& level = load.slot->config;
  return workers_ != nullptr && config::is_isolated(level) && !level.providers.empty() &&
         load.slot->runtime() == nullptr &&
         (load.model->ladder.disabled(level.level) || !load.model->ladder.left_out(level.level));
}

// A driver or a device may come after the server; only a fresh process sees it, which isolated
// levels have at each try.
void LadderEngine::retry_until_stopped() {
  Duration wait = kFirstRetry;
  TimePoint next = clock_.now() + wait;
  const MutexLock lock(loads_mutex_);
  while (!stopping_) {
    if (clock_.now() < next) {
      stop_.wait_for(loads_mutex_, next - clock_.now());
      continue;
    }
    std::vector<Load> still_late;
    for (const Load& load : std::exchange(late_, {})) {
      if (stopping_) return;
      if (!load.model->ladder.disabled(load.slot->config.level)) {
        loads_mutex_.unlock();
        retry_level(*load.model, *load.slot, loading_with());
        loads_mutex_.lock();
      }
      if (may_come_late(load)) still_late.push_back(load);
    }
    late_.insert(late_.end(), still_late.begin(), still_late.end());
    wait = std::min<Duration>(2 * wait, kLongestRetry);
    next = clock_.now() + wait;
  }
}

bool LadderEngine::loading() const {
  return std::ranges::any_of(models_, [](const auto& entry) { return entry.second->loading > 0; });
}

bool LadderEngine::ready() const {
  if (draining_) return false;
  bool one_answers = models_.empty() && broken_.empty();
  for (const auto& [name, model] : models_) {
    const bool answers = model->ladder.can_answer();
    if (!answers && model->loading > 0) return false;
    one_answers = one_answers || answers;
  }
  return one_answers;
}

Result<std::shared_ptr<Model>> LadderEngine::find(std::string_view model,
                                                  std::string_view version) const {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    const auto broken = broken_.find(model);
    if (broken == broken_.end()) {
      return fail(Code::kNotFound, "unknown model '" + std::string(model) + "'");
    }
    return fail(Code::kUnavailable,
                "model '" + std::string(model) + "' is not served: " + broken->second);
  }
  if (!version.empty() && version != found->second->version) {
    return fail(Code::kNotFound, "model '" + std::string(model) + "' has no version " +
                                     std::string(version) + ", it has " + found->second->version);
  }
  return found->second;
}

std::vector<std::string> LadderEngine::model_names() const {
  std::vector<std::string> names;
  for (const auto& [name, model] : models_) names.push_back(name);
  for (const auto& [name, why] : broken_) {
    if (is_model_name(name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Result<void> LadderEngine::model_ready(std::string_view model, std::string_view version) const {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  if ((*found)->ladder.can_answer()) return {};
  return fail(Code::kUnavailable, why_not_served(**found));
}

Result<ModelInfo> LadderEngine::model_info(std::string_view model, std::string_view version) const {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  const runtime::Signature* const signature = (*found)->signature();
  if (signature == nullptr) return fail(Code::kUnavailable, why_not_served(**found));
  return ModelInfo{(*found)->name, {(*found)->version}, (*found)->version, *signature};
}

Result<std::string> LadderEngine::ladder_json(std::string_view model,
                                              std::string_view version) const {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  return serving::ladder_json(**found, workers_.get());
}

Result<std::string> LadderEngine::command(std::string_view model, std::string_view version,
                                          const LadderCommand& command) {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  if (const auto done = obey((*found)->ladder, command); !done) return tl::unexpected(done.error());
  log::info("an operator " + command_text((*found)->name, command),
            {{"event", "command"}, {"model", (*found)->name}, {"peer", command.who}});
  return serving::ladder_json(**found, workers_.get());
}

std::string LadderEngine::workers_json() const { return serving::workers_json(workers_.get()); }

std::string LadderEngine::metrics_text(std::vector<metrics::ReceiverView> receivers) const {
  metrics::View view = metrics_view(metrics_, models_, workers_.get());
  view.receivers = std::move(receivers);
  return metrics::exposition(view);
}

std::vector<IndexEntry> LadderEngine::index() const {
  std::vector<IndexEntry> entries;
  for (const auto& [name, model] : models_) {
    const bool answers = model->ladder.can_answer();
    const bool loading = !answers && model->loading > 0;
    entries.push_back({name, model->version,
                       answers   ? VersionState::kReady
                       : loading ? VersionState::kLoading
                                 : VersionState::kUnavailable,
                       answers ? "" : why_not_served(*model)});
  }
  for (const auto& [name, why] : broken_) {
    entries.push_back({name, "", VersionState::kUnavailable, why});
  }
  return entries;
}

void LadderEngine::load(LoadModel /*what*/, Managed done) {
  done(fail(Code::kInvalid, "models cannot be loaded yet"));
}

void LadderEngine::unload(const std::string& /*model*/, Managed done) {
  done(fail(Code::kInvalid, "models cannot be unloaded yet"));
}

Result<std::string> LadderEngine::config_json(std::string_view model,
                                              std::string_view version) const {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  const auto info = model_info(model, version);
  if (!info) return tl::unexpected(info.error());
  return describe_((*found)->config, *info);
}

Result<std::vector<ModelStatistics>> LadderEngine::statistics(std::string_view model,
                                                              std::string_view version) const {
  const auto found = find(model, version);
  if (!found) return tl::unexpected(found.error());
  return std::vector<ModelStatistics>{};
}

void LadderEngine::refused(std::string_view model, std::string_view version, Code code) {
  const auto found = find(model, version);
  found ? (*found)->metrics.failed(code) : metrics_.failed(found.error().code);
}

Ticket LadderEngine::infer(Request request, Done done) {
  inferences_.fetch_add(1, std::memory_order_relaxed);
  auto model = find(request.model, request.version);
  if (!model) {
    metrics_.failed(model.error().code);
    done(tl::unexpected(model.error()));
    return {};
  }
  const auto refuse = [&](Code code, std::string why) {
    (*model)->metrics.failed(code);
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
  if (!request.tier) {
    const std::uint32_t levels = (*model)->config.priority_levels;
    request.tier = config::tier_of_priority(request.priority, levels);
    if (!request.tier) {
      return refuse(Code::kInvalid, "priority = " + std::to_string(request.priority) + ": model '" +
                                        request.model + "' has " + std::to_string(levels) +
                                        " priority levels");
    }
  }
  (*model)->arrivals.note();
  return InFlight::start(std::move(*model), std::move(request), std::move(done), clock_, timer_);
}

}  // namespace gradus::serving
