#include "serving/level_loader.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "config/model_config.h"
#include "config/provider_names.h"
#include "runtime/sample_inputs.h"
#include "serving/left_out.h"
#include "serving/status.h"

namespace gradus::serving {
namespace {

constexpr int kWarmRuns = 3;
// Runs of each level in a comparison: at least kLeastRuns, and more of quick ones, whose figures
// are the noisier.
constexpr int kLeastRuns = 7;
constexpr int kMostRuns = 50;
constexpr Duration kMeasureFor = std::chrono::milliseconds(60);

Result<Duration> timed_run(const Model& model, const LevelRuntime& level, const Clock& clock) {
  std::vector<std::size_t> outputs(model.signature()->outputs.size());
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  const TimePoint begun = clock.now();
  const auto result = run_level(level, model.sample(), outputs);
  if (!result) return tl::unexpected(result.error());
  return clock.now() - begun;
}

Result<std::unique_ptr<LevelRuntime>> load_runtime(Model& model, LevelSlot& slot,
                                                   const LoadFn& load, Lanes& lanes) {
  const config::LevelConfig& level = slot.config;
  auto loaded = load({.file = model.files / level.file,
                      .providers = level.providers,
                      .device_ids = level.device_ids,
                      .threads = level.threads,
                      .allow_software_gpu = level.allow_software_gpu,
                      .check_outputs = level.check_outputs});
  if (!loaded) return tl::unexpected(loaded.error());
  auto order = model.adopt(loaded->backend->signature());
  if (!order) return tl::unexpected(order.error());
  slot.set_note(runtime::failures_text(loaded->failures));  // of better providers, if any
  auto runtime = std::make_unique<LevelRuntime>();
  runtime->backend = std::move(loaded->backend);
  runtime->on_gpu = config::is_gpu_provider(loaded->provider_used);
  runtime->lane = &lanes.lane_for(model.name, level, runtime->on_gpu);
  runtime->input_order = std::move(order->inputs);
  runtime->output_order = std::move(order->outputs);
  runtime->provider_used = std::move(loaded->provider_used);
  runtime->node_share = loaded->node_share;
  return runtime;
}

Result<void> warm_up(Model& model, const LevelRuntime& level, const Clock& clock) {
  if (model.sample().empty() && !model.signature()->inputs.empty()) {
    const auto sample = runtime::find_sample(*level.backend);
    if (!sample) return tl::unexpected(sample.error());
    model.set_sample(sample->size);
  }
  for (int i = 0; i < kWarmRuns; ++i) {
    if (const auto run = timed_run(model, level, clock); !run) return tl::unexpected(run.error());
  }
  return {};
}

Measured described(const LevelSlot& slot, const LevelRuntime& level, Duration fastest) {
  return {.level = slot.config.level,
          .name = slot.config.name,
          .on_gpu = level.on_gpu,
          .keep = slot.config.keep == config::Keep::kAlways,
          .quality = slot.config.quality,
          .fastest = fastest};
}

struct Contest {
  Measured newcomer, other;
};

// Interleaved, so that a slow moment of the machine meets both; nothing when one of them fails.
std::optional<Contest> measure(const Model& model, const LevelSlot& slot, const LevelRuntime& level,
                               const LevelSlot& other_slot, const Clock& clock) {
  const LevelRuntime& other = *other_slot.runtime();
  Duration mine = Duration::max();
  Duration theirs = Duration::max();
  const TimePoint enough = clock.now() + kMeasureFor;
  for (int i = 0; i < kLeastRuns || (i < kMostRuns && clock.now() < enough); ++i) {
    const auto my_run = timed_run(model, level, clock);
    const auto their_run = timed_run(model, other, clock);
    if (!my_run || !their_run) return std::nullopt;
    mine = std::min(mine, *my_run);
    theirs = std::min(theirs, *their_run);
  }
  return Contest{described(slot, level, mine), described(other_slot, other, theirs)};
}

void leave_out(Model& model, const LevelSlot& slot, const std::string& why) {
  model.ladder.level_left_out(slot.config.level, ladder::LeftOut::Why::kSkipped, why);
  log::info("model '" + model.name + "' leaves out level " + std::to_string(slot.config.level) +
            " '" + slot.config.name + "': " + why);
}

struct Verdict {
  std::optional<std::string> newcomer;                           // why it is left out
  std::vector<std::pair<const LevelSlot*, std::string>> others;  // those it pushes out, and why
};

Verdict judge(const Model& model, const LevelSlot& slot, const LevelRuntime& level,
              const Clock& clock) {
  Verdict verdict;
  for (const auto& other : model.levels) {
    if (other.get() == &slot || other->runtime() == nullptr) continue;
    if (model.ladder.left_out(other->config.level)) continue;
    if (!may_push_out(described(slot, level, {}), described(*other, *other->runtime(), {}))) {
      continue;
    }
    const auto contest = measure(model, slot, level, *other, clock);
    if (!contest) continue;
    verdict.newcomer = left_out(contest->newcomer, contest->other);
    if (verdict.newcomer) return verdict;
    if (auto why = left_out(contest->other, contest->newcomer)) {
      verdict.others.emplace_back(other.get(), std::move(*why));
    }
  }
  return verdict;
}

Result<void> bring_up(Model& model, LevelSlot& slot, const LoadFn& load, Lanes& lanes,
                      const Clock& clock) {
  auto runtime = load_runtime(model, slot, load, lanes);
  if (!runtime) return tl::unexpected(runtime.error());
  if (config::is_gpu_level(slot.config)) {
    // Its first runs may hang, and then the CPU levels must not stand in line behind it.
    for (int left; (left = model.cpu_loading) > 0;) model.cpu_loading.wait(left);
  }
  const MutexLock turn(model.arrival);
  if (const auto warm = warm_up(model, **runtime, clock); !warm) return warm;
  const Verdict verdict = judge(model, slot, **runtime, clock);
  if (verdict.newcomer) {
    leave_out(model, slot, *verdict.newcomer);
    return {};
  }
  slot.publish(std::move(*runtime));
  model.ladder.level_ready(slot.config.level);
  for (const auto& [other, why] : verdict.others) leave_out(model, *other, why);
  return {};
}

}  // namespace

void load_level(Model& model, LevelSlot& slot, const LoadFn& load, Lanes& lanes,
                const Clock& clock) {
  const int level = slot.config.level;
  if (slot.config.providers.empty()) {  // the operator does not want what could run it
    model.ladder.level_left_out(level, ladder::LeftOut::Why::kDisabled,
                                config::exclusion_reason(slot.config));
  } else if (const auto up = bring_up(model, slot, load, lanes, clock); !up) {
    model.ladder.level_lost(level, up.error().message);
  }
  if (end_loading(model, slot)) {
    log::write(model.ladder.can_answer() ? log::Severity::kInfo : log::Severity::kError,
               summary_line(model));
  }
}

bool end_loading(Model& model, const LevelSlot& slot) {
  if (!config::is_gpu_level(slot.config) && --model.cpu_loading == 0) {
    model.cpu_loading.notify_all();
  }
  return --model.loading == 0;
}

}  // namespace gradus::serving
