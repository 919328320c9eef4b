#include "serving/ladder_engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "serving/in_flight.h"
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
      timer_(clock),
      workers_(options.workers ? std::make_unique<Workers>(*options.workers, clock) : nullptr),
      memory_(memory),
      queue_limits_(options.queue),
      lanes_(options.cpus, clock),
      prober_(clock) {
  for (ModelFolder& folder : folders) {
    if (!folder.faults.empty()) {
      log::error("model '" + folder.name + "' is not served: " + joined(folder.faults));
      broken_.emplace(folder.name, joined(folder.faults));
      continue;
    }
    const auto model = std::make_shared<Model>(folder.name, folder.version, folder.files,
                                               std::move(folder.config), clock);
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
         load.slot->runtime() == nullptr && !load.model->ladder.left_out(level.level);
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
      loads_mutex_.unlock();
      retry_level(*load.model, *load.slot, loading_with());
      loads_mutex_.lock();
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

std::string LadderEngine::workers_json() const { return serving::workers_json(workers_.get()); }

void LadderEngine::infer(Request request, Done done) {
  inferences_.fetch_add(1, std::memory_order_relaxed);
  auto model = find(request.model, request.version);
  if (!model) return done(tl::unexpected(model.error()));
  if ((*model)->signature() == nullptr) {
    return done(fail(Code::kUnavailable, why_not_served(**model)));
  }
  const int worst = (*model)->levels.back()->config.level;
  if (request.min_level > worst) {
    return done(fail(Code::kInvalid, "min_level = " + std::to_string(request.min_level) +
                                         ": model '" + request.model +
                                         "' has no level worse than " + std::to_string(worst)));
  }
  if (!request.tier) {
    const std::uint32_t levels = (*model)->config.priority_levels;
    request.tier = config::tier_of_priority(request.priority, levels);
    if (!request.tier) {
      return done(fail(Code::kInvalid, "priority = " + std::to_string(request.priority) +
                                           ": model '" + request.model + "' has " +
                                           std::to_string(levels) + " priority levels"));
    }
  }
  (*model)->arrivals.note();
  InFlight::start(std::move(*model), std::move(request), std::move(done), clock_, timer_);
}

}  // namespace gradus::serving
