#include "serving/statistics.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>

namespace gradus::serving {
namespace {

DurationSum sum_of(const metrics::Histogram& durations) {
  return {durations.count(), durations.sum_ns()};
}

DurationSum& operator+=(DurationSum& sum, const DurationSum& more) {
  sum.count += more.count;
  sum.ns += more.ns;
  return sum;
}

void add_batches(const metrics::BatchCounts& counts, LevelStatistics& level,
                 std::map<std::uint64_t, BatchStatistics>& batches) {
  for (std::uint32_t size = 1; size <= counts.most(); ++size) {
    const metrics::BatchCounts::OfSize& of = counts.of(size);
    const std::uint64_t runs = of.runs.value();
    if (runs == 0) continue;
    level.execution_count += runs;
    level.inference_count += size * runs;
    BatchStatistics& batch = batches[size];
    batch.batch_size = size;
    batch.compute_input += {runs, of.input_ns.value()};
    batch.compute_infer += {runs, of.infer_ns.value()};
    batch.compute_output += {runs, of.output_ns.value()};
  }
}

}  // namespace

ModelStatistics statistics_of(const Model& model, TimePoint now) {
  ModelStatistics all;
  all.name = model.name;
  all.version = model.version;
  if (const auto last = model.metrics.last_answer()) {
    using std::chrono::milliseconds;
    const auto at = wall_now() - std::chrono::duration_cast<WallTime::duration>(now - *last);
    const auto since = std::chrono::duration_cast<milliseconds>(at.time_since_epoch());
    all.last_inference_ms = static_cast<std::uint64_t>(since.count());
  }
  for (const Code code : metrics::kCodes) all.fail.count += model.metrics.failures.of(code);
  all.fail.ns = model.metrics.failed_ns.value();
  std::map<std::uint64_t, BatchStatistics> batches;
  for (const auto& slot : model.levels) {
    const metrics::LevelMetrics& values = slot->metrics;
    LevelStatistics level;
    level.level = slot->config.level;
    level.name = slot->config.name;
    level.success = sum_of(values.latency);
    level.queue = sum_of(values.queue);
    const DurationSum run = sum_of(values.run);
    const DurationSum joining{run.count, std::min(run.ns, values.joining_ns.value())};
    const DurationSum splitting{run.count,
                                std::min(run.ns - joining.ns, values.splitting_ns.value())};
    level.compute_infer = {run.count, run.ns - joining.ns - splitting.ns};
    add_batches(values.batches, level, batches);
    all.inference_count += level.inference_count;
    all.execution_count += level.execution_count;
    all.success += level.success;
    all.queue += level.queue;
    all.compute_input += joining;
    all.compute_infer += level.compute_infer;
    all.compute_output += splitting;
    all.levels.push_back(std::move(level));
  }
  for (const auto& [size, batch] : batches) all.batches.push_back(batch);
  return all;
}

}  // namespace gradus::serving
