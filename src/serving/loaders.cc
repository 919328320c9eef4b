#include "serving/loaders.h"

#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "config/model_config.h"
#include "serving/level_devices.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

// Between tries of isolated levels that could not be loaded on all devices; doubled each time.
constexpr Duration kFirstRetry = 5s;
constexpr Duration kLongestRetry = 5min;

// One GPU level after the other: drivers compile on all cores. But a hung one, which is given ten
// minutes, must not hold up all others for as long.
constexpr int kGpuLoaders = 3;
constexpr Duration kGpuTurn = 10s;

std::uintmax_t file_size(const Model& model, const LevelSlot& slot) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(model.files / slot.config.file, ignored);
  return ignored ? 0 : size;
}

}  // namespace

Loaders::Loaders(int cpus, Loading with, std::function<void(const std::shared_ptr<Model>&)> settle)
    : with_(with), settle_(std::move(settle)), retry_wait_(kFirstRetry) {
  for (int i = 0; i < cpus; ++i) threads_.emplace_back([this] { work(false); });
  for (int i = 0; i < kGpuLoaders; ++i) threads_.emplace_back([this] { work(true); });
  for (auto& thread : threads_) pthread_setname_np(thread.native_handle(), "load");
}

Loaders::~Loaders() { stop(); }

void Loaders::stop() {
  std::vector<Load> dropped;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (auto* loads : {&cpu_loads_, &gpu_loads_}) {
      dropped.insert(dropped.end(), loads->begin(), loads->end());
      loads->clear();
    }
  }
  for (const Load& load : dropped) end_loading(*load.model, *load.slot);
  changed_.notify_all();
  threads_.clear();
}

void Loaders::bring_up(const std::vector<std::shared_ptr<Model>>& models) {
  {
    const MutexLock lock(mutex_);
    for (const auto& model : models) {
      for (const auto& slot : model->levels) {
        (config::is_gpu_level(slot->config) ? gpu_loads_ : cpu_loads_)
            .push_back({model, slot.get()});
      }
    }
    for (auto* loads : {&cpu_loads_, &gpu_loads_}) {
      std::ranges::stable_sort(*loads, std::ranges::greater{},
                               [](const Load& l) { return file_size(*l.model, *l.slot); });
    }
  }
  changed_.notify_all();
}

void Loaders::drop_left() {
  std::vector<Load> dropped;
  {
    const MutexLock lock(mutex_);
    for (auto* loads : {&cpu_loads_, &gpu_loads_}) {
      const auto left =
          std::ranges::stable_partition(*loads, [](const Load& one) { return !one.model->leaves; });
      dropped.insert(dropped.end(), left.begin(), left.end());
      loads->erase(left.begin(), left.end());
    }
  }
  for (const Load& load : dropped) end_loading(*load.model, *load.slot);
}

Loaders::Load Loaders::take(std::vector<Load>& loads) {
  Load next = std::move(loads.back());
  loads.pop_back();
  return next;
}

// When the turn of whoever loads now is over.
TimePoint Loaders::next_gpu_load() const {
  return gpu_begun_.empty() ? TimePoint{} : std::ranges::max(gpu_begun_) + kGpuTurn;
}

void Loaders::work(bool on_gpu) {
  mutex_.lock();
  while (!stopping_) {
    const TimePoint now = with_.clock.now();
    if (!on_gpu) {
      if (cpu_loads_.empty()) {
        changed_.wait(mutex_);
        continue;
      }
      const Load next = take(cpu_loads_);
      mutex_.unlock();
      load(next);
      mutex_.lock();
      continue;
    }
    const bool loads = !gpu_loads_.empty();
    const TimePoint at = std::max(next_gpu_load(), loads ? now : retry_at_);
    if (!loads && late_.empty()) {
      changed_.wait(mutex_);
    } else if (at > now) {
      changed_.wait_for(mutex_, at - now);
    } else {
      const Load next = loads ? take(gpu_loads_) : Load{};
      gpu_begun_.push_back(now);
      mutex_.unlock();
      loads ? load(next) : retry_late();
      mutex_.lock();
      gpu_begun_.erase(std::ranges::find(gpu_begun_, now));
      changed_.notify_all();
    }
  }
  mutex_.unlock();
}

void Loaders::load(const Load& next) {
  if (next.model->leaves) {
    end_loading(*next.model, *next.slot);
    return;
  }
  const bool again = load_level(next.model, *next.slot, with_);
  settle_(next.model);
  if (!again || !may_come_late(*next.model, *next.slot)) return;
  const MutexLock lock(mutex_);
  late_.push_back({next.model, next.slot});
  retry_wait_ = kFirstRetry;
  retry_at_ = with_.clock.now() + retry_wait_;
  changed_.notify_all();
}

bool Loaders::may_come_late(const Model& model, const LevelSlot& slot) const {
  const config::LevelConfig& level = slot.config;
  return with_.workers != nullptr && config::is_isolated(level) && !level.providers.empty() &&
         (slot.runtime() == nullptr || lacks_devices(slot)) &&
         (model.ladder.disabled(level.level) || !model.ladder.left_out(level.level));
}

// A driver or a device may come after the server; only a fresh process sees it, which isolated
// levels have at each try.
void Loaders::retry_late() {
  std::vector<Late> tried;
  {
    const MutexLock lock(mutex_);
    tried.swap(late_);
  }
  std::vector<Late> still_late;
  for (const Late& late : tried) {
    const auto model = late.model.lock();
    if (model == nullptr || model->leaves) continue;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    bool again = true;
    if (!model->ladder.disabled(late.slot->config.level)) {
      again = retry_level(model, *late.slot, with_);
      settle_(model);
    }
    if (again && may_come_late(*model, *late.slot)) still_late.push_back(late);
  }
  const MutexLock lock(mutex_);
  late_.insert(late_.end(), still_late.begin(), still_late.end());
  retry_wait_ = std::min<Duration>(2 * retry_wait_, kLongestRetry);
  retry_at_ = with_.clock.now() + retry_wait_;
}

}  // namespace gradus::serving
