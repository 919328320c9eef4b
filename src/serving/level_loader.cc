#include "serving/level_loader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "batch/batchable.h"
#include "config/model_config.h"
#include "config/provider_names.h"
#include "runtime/fault_class.h"
#include "runtime/sample_inputs.h"
#include "serving/declared.h"
#include "serving/learn_joining.h"
#include "serving/left_out.h"
#include "serving/level_devices.h"
#include "serving/level_run.h"
#include "serving/status.h"
#include "serving/warmup.h"

namespace gradus::serving {
namespace {

constexpr int kWarmRuns = 3;
// Runs of each level in a comparison: at least kLeastRuns, and more of quick ones, whose figures
// are the noisier.
constexpr int kLeastRuns = 7;
constexpr int kMostRuns = 50;
constexpr Duration kMeasureFor = std::chrono::milliseconds(60);
// Of a batch size and single samples, in turns; less for quick ones.
constexpr Duration kCompareFor = std::chrono::milliseconds(10);
// No larger batch is warmed up once it took so long.
constexpr Duration kWarmCpuFor = std::chrono::milliseconds(200);
constexpr Duration kWarmGpuFor = std::chrono::seconds(2);

Result<Duration> timed_run(const LevelRuntime& level, const Clock& clock) {
  const TimePoint begun = clock.now();
  if (const auto run = level.run_sample(); !run) return tl::unexpected(run.error());
  return clock.now() - begun;
}

Result<std::unique_ptr<LevelRuntime>> load_runtime(const std::shared_ptr<Model>& model,
                                                   LevelSlot& slot, const Loading& with) {
  const bool alone =
      with.workers != nullptr && with.workers->is_suspect(Workers::name_of(*model, slot.config));
  auto loaded = load_on_devices(model, slot, with);
  if (!loaded) return tl::unexpected(loaded.error());
  slot.set_note(runtime::failures_text(loaded->failures));  // of better providers, if any
  auto runtime = std::make_unique<LevelRuntime>();
  runtime->backend = std::move(loaded->backend);
  runtime->max_batch_size = std::min(slot.config.max_batch_size, slot.largest_batch);
  runtime->alone = alone;
  runtime->single_only = slot.largest_batch == 1;
  runtime->on_gpu = config::is_gpu_provider(loaded->provider_used);
  runtime->provider_used = std::move(loaded->provider_used);
  runtime->node_share = loaded->node_share;
  runtime->memory = &with.memory;
  return runtime;
}

// The size that the model's other levels run with, so that their times can be compared; where that
// does not fit, one of the level's own.
Result<void> warm_up(Model& model, LevelRuntime& level, std::size_t device_count)
    REQUIRES(model.arrival) {
  const auto take = [&level](std::vector<Tensor> inputs) {
    level.sample = std::move(inputs);
    level.sample_views = runtime::views_of(level.sample);
    return level.run_sample();
  };
  bool fits = false;
  if (model.sample_size > 0) {
    const auto run = take(runtime::sample_inputs(level.signature(), model.sample_size));
    if (!run && run.error().code == Code::kWorkerLost) return tl::unexpected(run.error());
    fits = run.has_value();
  }
  if (!fits) {
    auto sample = runtime::find_sample(*level.backend);
    if (!sample) return tl::unexpected(sample.error());
    if (model.sample_size == 0) model.sample_size = sample->size;
    if (const auto run = take(std::move(sample->inputs)); !run) return tl::unexpected(run.error());
  }
  const int devices = static_cast<int>(std::max<std::size_t>(1, device_count));
  for (int i = 1; i < kWarmRuns * devices; ++i) {
    const auto run = level.run_sample();
    if (!run) return tl::unexpected(run.error());
    level.contract = OutputContract(level.signature(), *run);
  }
  return {};
}

void tell(const Model& model, const LevelSlot& slot, const std::string& note) {
  log::info("model '" + model.name + "' level " + std::to_string(slot.config.level) + " '" +
            slot.config.name + "': " + note);
}

// Of a run of a batch that failed. Where the level has a worker of its own, nothing else ended it.
void limit_batches(LevelSlot& slot, const LevelRuntime& level, const Error& error,
                   std::uint32_t most) {
  if (level.alone && error.code == Code::kWorkerLost) slot.largest_batch = most;
}

// Only where it can pay: on a GPU each new size is compiled, which takes long.
Result<void> join_requests(const Model& model, LevelSlot& slot, LevelRuntime& level)
    REQUIRES(model.arrival) {
  if (slot.largest_batch == 1 || (level.on_gpu && slot.config.max_batch_size == 1)) return {};
  auto joining = learn_joining(level, model.config.pad, model.sample_size);
  if (!joining) {
    const LostRun& lost = joining.error();
    if (lost.samples > 1) limit_batches(slot, level, lost.error, 1);
    return tl::unexpected(lost.error);
  }
  level.padding = std::move(joining->padding);
  if (slot.config.max_batch_size > 1 && !joining->note.empty()) tell(model, slot, joining->note);
  return {};
}

// One batch of a level's sample, again and again.
struct WarmRun {
  batch::Fit fit;
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  Duration least = Duration::max();

  WarmRun(const LevelRuntime& level, std::int64_t length, std::uint32_t samples)
      : inputs(runtime::sample_inputs(level.signature(), length, samples)),
        views(runtime::views_of(inputs)) {
    if (level.padding) fit = batch::fit(*level.padding, views, level.all_outputs());
  }

  Result<void> run(LevelRuntime& level, const Clock& clock) {
    const TimePoint begun = clock.now();
    if (const auto ran = level.run(views, level.all_outputs()); !ran) {
      return tl::unexpected(ran.error());
    }
    const Duration took = clock.now() - begun;
    least = std::min(least, took);
    level.queue->warm_up(size_of(fit, views), fit.length, took);
    return {};
  }
};

// A size that fails is not used; but one that ends the worker ends this try.
Result<void> unless_lost(const Error& error) {
  if (error.code == Code::kWorkerLost) return tl::unexpected(error);
  return {};
}

// What later runs of these sizes will take, and the compiling that comes with a first one. Each
// size takes turns with single samples, and of each the quickest run counts: else a machine that is
// busy with other models just now would decide for good what is joined.
Result<void> warm_sizes(LevelSlot& slot, LevelRuntime& level, std::int64_t length, Duration at_most,
                        const Clock& clock) {
  const std::uint32_t most = level.padding ? level.max_batch_size : 1;
  const TimePoint enough = clock.now() + at_most;
  WarmRun single(level, length, 1);
  for (int i = 0; i < kWarmRuns; ++i) {
    if (const auto ran = single.run(level, clock); !ran) return unless_lost(ran.error());
  }
  std::vector<batch::Measured> sizes{{1, single.least}};
  for (std::uint32_t samples = 2; samples <= most; samples *= 2) {
    if (samples > 2 && clock.now() >= enough) break;
    WarmRun joined(level, length, samples);
    const TimePoint quick = clock.now() + kCompareFor;
    Result<void> ran;
    for (int i = 0; ran && (i < kWarmRuns || (i < kMostRuns && clock.now() < quick)); ++i) {
      ran = single.run(level, clock);
      if (!ran) break;
      ran = joined.run(level, clock);
      if (!ran) limit_batches(slot, level, ran.error(), samples / 2);
    }
    if (!ran) {
      if (auto lost = unless_lost(ran.error()); !lost) return lost;
      break;
    }
    sizes.front().run = single.least;
    sizes.push_back({samples, joined.least});
  }
  level.queue->measured(single.fit.length, sizes);
  return {};
}

Result<void> warm_queue(const Model& model, LevelSlot& slot, LevelRuntime& level,
                        const Clock& clock) REQUIRES(model.arrival) {
  const Duration at_most = level.on_gpu ? kWarmGpuFor : kWarmCpuFor;
  const std::int64_t usual = model.sample_size;
  const bool lengths_vary = level.padding && level.padding->any() && level.max_batch_size > 1;
  std::vector<std::int64_t> lengths{usual};
  if (lengths_vary) lengths = {usual / 8, usual / 4, usual / 2, usual, 2 * usual};
  for (const std::int64_t length : lengths) {
    if (length == 0) continue;
    if (auto warm = warm_sizes(slot, level, length, at_most, clock); !warm) return warm;
  }
  return {};
}

Result<void> open_queue(Model& model, LevelSlot& slot, LevelRuntime& level, const Loading& with)
    REQUIRES(model.arrival) {
  const config::LevelConfig& config = slot.config;
  batch::Rules rules{.max_size = level.padding ? level.max_batch_size : 1,
                     .max_delay = config.max_queue_delay,
                     .preferred_sizes = config.preferred_batch_sizes,
                     .max_padding_waste = config.max_padding_waste};
  std::erase_if(rules.preferred_sizes, [&](auto size) { return size > rules.max_size; });
  batch::QueueLimits limits = with.limits;
  if (model.config.max_queue_size > 0) limits.entries = model.config.max_queue_size;
  auto lane = with.lanes.lane_for(model.name, config, level.on_gpu);
  follow_devices(*level.backend, lane);
  LevelQueue& queue = lane->open(
      {.level = config.level,
       .limits = limits,
       .rules = std::move(rules),
       .join_always = config.join == config::Join::kAlways,
       .batch_target =
           config.adaptive_batch ? std::optional<Duration>(config.target_p99) : std::nullopt,
       .batch_tier_share = level.on_gpu ? config.batch_tier_share : 1,
       .may_run_here = !config::is_isolated(config) && !level.on_gpu,
       .refuses_by_estimate = model.config.admission,
       .run = [&model, &slot, &clock = with.clock](const Batch& batch, const Ended& ended) {
         run_on_level(model, slot, batch, ended, clock);
       }});
  level.queue = OpenQueue(std::move(lane), queue);
  batch::Fit fit;
  if (level.padding) fit = batch::fit(*level.padding, level.sample_views, level.all_outputs());
  level.sample_kind = size_of(fit, level.sample_views);
  if (auto warm = warm_queue(model, slot, level, with.clock); !warm) return warm;
  if (slot.largest_batch < config.max_batch_size) {
    tell(model, slot,
         "takes at most " + std::to_string(slot.largest_batch) +
             " samples at a time: a larger batch ended its worker");
  }
  if (level.padding && level.max_batch_size > 1 && queue.load().batch_size == 1) {
    tell(model, slot,
         "requests are not joined: in trial runs batches save less than a tenth of the time; to "
         "join all the same set join: always");
  }
  return {};
}

// The best level that is loaded says what the model is; whoever disagrees with it is no level of
// it.
void settle_differences(Model& model) {
  for (const auto& slot : model.levels) {
    if (slot->runtime() == nullptr) continue;
    const auto what = difference(*model.signature(), slot->runtime()->signature());
    if (what.empty() == !slot->differs) continue;
    slot->differs = !what.empty();
    if (slot->differs) {
      model.ladder.level_lost(slot->config.level, what);
    } else {
      model.ladder.level_ready(slot->config.level);
    }
  }
}

// What the level has against the best of the better ones; "": nothing, or it is the best itself.
std::string difference_to_better(const Model& model, const LevelSlot& slot,
                                 const LevelRuntime& level) {
  for (const auto& other : model.levels) {
    if (other.get() == &slot) break;
    if (other->runtime() != nullptr) {
      return difference(other->runtime()->signature(), level.signature());
    }
  }
  return "";
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
std::optional<Contest> measure(const LevelSlot& slot, const LevelRuntime& level,
                               const LevelSlot& other_slot, const Clock& clock) {
  const LevelRuntime& other = *other_slot.runtime();
  Duration mine = Duration::max();
  Duration theirs = Duration::max();
  const TimePoint enough = clock.now() + kMeasureFor;
  for (int i = 0; i < kLeastRuns || (i < kMostRuns && clock.now() < enough); ++i) {
    const auto my_run = timed_run(level, clock);
    const auto their_run = timed_run(other, clock);
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
    if (other.get() == &slot || other->runtime() == nullptr || other->differs) continue;
    if (model.ladder.left_out(other->config.level)) continue;
    if (!may_push_out(described(slot, level, {}), described(*other, *other->runtime(), {}))) {
      continue;
    }
    const auto contest = measure(slot, level, *other, clock);
    if (!contest) continue;
    verdict.newcomer = left_out(contest->newcomer, contest->other);
    if (verdict.newcomer) return verdict;
    if (auto why = left_out(contest->other, contest->newcomer)) {
      verdict.others.emplace_back(other.get(), std::move(*why));
    }
  }
  return verdict;
}

Result<void> try_to_bring_up(const std::shared_ptr<Model>& shared, LevelSlot& slot,
                             const Loading& with) {
  Model& model = *shared;
  auto runtime = load_runtime(shared, slot, with);
  if (!runtime) return tl::unexpected(runtime.error());
  if (auto why = contradiction(model.config.declared, (*runtime)->signature()); !why.empty()) {
    return fail(Code::kInvalid, std::move(why));
  }
  if (config::is_gpu_level(slot.config)) {
    // Its first runs may hang, and then the CPU levels must not stand in line behind it.
    for (int left; (left = model.cpu_loading) > 0;) model.cpu_loading.wait(left);
  }
  const MutexLock turn(model.arrival);
  if (const auto warm = warm_up(model, **runtime, slot.config.device_ids.size()); !warm)
    return warm;
  if (const auto warm = run_warmup(**runtime, model.config); !warm) return warm;
  if (const auto joins = join_requests(model, slot, **runtime); !joins) return joins;
  if (const auto opened = open_queue(model, slot, **runtime, with); !opened) return opened;
  if (const auto what = difference_to_better(model, slot, **runtime); !what.empty()) {
    // Kept all the same: a better level still to come may agree with it.
    slot.differs = true;
    slot.publish(std::move(*runtime));
    model.ladder.level_lost(slot.config.level, what);
    return {};
  }
  const Verdict verdict = judge(model, slot, **runtime, with.clock);
  if (verdict.newcomer) {
    leave_out(model, slot, *verdict.newcomer);
    return {};
  }
  slot.publish(std::move(*runtime));
  model.ladder.level_ready(slot.config.level);
  if (slot.gone()) model.ladder.level_lost(slot.config.level, "its worker was lost meanwhile");
  for (const auto& [other, why] : verdict.others) leave_out(model, *other, why);
  settle_differences(model);
  return {};
}

// With smaller batches where one ends the worker; each try allows at most half of the last one's.
Result<void> bring_up(const std::shared_ptr<Model>& model, LevelSlot& slot, const Loading& with) {
  for (;;) {
    const std::uint32_t before = slot.largest_batch;
    auto up = try_to_bring_up(model, slot, with);
    if (up || slot.largest_batch == before) return up;
  }
}

// Only a fresh process may meet what has come since, if it is a device: what is installed stays.
bool tell_failure(Model& model, const LevelSlot& slot, const Error& error, const Loading& with) {
  const bool in_worker = with.workers != nullptr && config::is_isolated(slot.config);
  const bool for_good = in_worker && runtime::is_configuration(error);
  blame(model, slot, error, with);
  model.ladder.level_lost(slot.config.level, error.message + (for_good ? kNotAgain : ""));
  return !for_good;
}

}  // namespace

bool load_level(const std::shared_ptr<Model>& shared, LevelSlot& slot, const Loading& with) {
  Model& model = *shared;
  bool may_come = true;
  const int level = slot.config.level;
  if (slot.config.providers.empty()) {  // the operator does not want what could run it
    model.ladder.level_left_out(level, ladder::LeftOut::Why::kDisabled,
                                config::exclusion_reason(slot.config));
  } else if (const auto up = bring_up(shared, slot, with); !up) {
    may_come = tell_failure(model, slot, up.error(), with);
  }
  if (end_loading(model, slot)) {
    log::write(model.ladder.can_answer() ? log::Severity::kInfo : log::Severity::kError,
               summary_line(model));
    for (const std::string& note : model.config.notes) {
      log::info("model '" + model.name + "': " + note);
    }
  }
  return may_come;
}

bool retry_level(const std::shared_ptr<Model>& shared, LevelSlot& slot, const Loading& with) {
  if (slot.runtime() != nullptr) return join_devices(shared, slot, with);
  Model& model = *shared;
  if (const auto up = bring_up(shared, slot, with); !up) {
    return tell_failure(model, slot, up.error(), with);
  }
  log::info("level " + std::to_string(slot.config.level) + " came up late: " + summary_line(model));
  return true;
}

bool end_loading(Model& model, const LevelSlot& slot) {
  if (!config::is_gpu_level(slot.config) && --model.cpu_loading == 0) {
    model.cpu_loading.notify_all();
  }
  return --model.loading == 0;
}

}  // namespace gradus::serving
