#include "serving/level_run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "metrics/batch_counts.h"
#include "runtime/fault_class.h"
#include "runtime/sample_inputs.h"
#include "serving/attempt.h"
#include "serving/joined_run.h"
#include "serving/run_in_parts.h"
#include "serving/shared_run.h"

namespace gradus::serving {
namespace {

using Outputs = std::vector<Tensor>;                    // of one request
using Members = std::vector<std::shared_ptr<Attempt>>;  // of one run

// The run met a level whose worker is gone, or took one of several workers with it: whoever looks
// after the workers tells the ladder whether the level is lost.
bool is_loss(const LevelSlot& slot, const Error& error) {
  return error.code == Code::kNotFound ||
         (error.code == Code::kWorkerLost && slot.config.device_ids.size() > 1);
}

// What the ladder, the estimates and the requests are told of a run.
struct Told {
  TimePoint begun;
  TimePoint joined;  // its inputs …
  TimePoint ran;     // … and the run itself, before its outputs are given back
  TimePoint over;
  Duration queue;  // the shortest wait
  ladder::Size size;
  bool asked_for = false;  // by all members

  metrics::RunTimes times() const { return {joined - begun, ran - joined, over - ran}; }
};

Result<std::vector<Outputs>> run_together(const LevelRuntime& level, const Members& members,
                                          runtime::Stop* stop, const Clock& clock, Told& told) {
  const std::vector<std::size_t>& wanted = members.front()->bound().outputs;
  std::vector<Part> parts;
  for (const auto& member : members) {
    parts.push_back({member->bound().run_inputs(), {member->samples, member->length}});
  }
  const auto inputs = join_inputs(level, *level.padding, parts);
  if (!inputs) return tl::unexpected(inputs.error());
  told.joined = clock.now();
  const std::vector<TensorView> views = runtime::views_of(*inputs);
  const auto outputs = level.run({views, parts.front().inputs.optional}, wanted, stop);
  if (!outputs) return tl::unexpected(outputs.error());
  told.ran = clock.now();
  return split_outputs(level, *level.padding, parts, wanted, *outputs);
}

Result<std::vector<Outputs>> run_alone(const LevelRuntime& level, const Members& members,
                                       runtime::Stop* stop) {
  const BoundRequest& first = members.front()->bound();
  const std::uint32_t most = level.max_batch_size;
  const std::uint32_t samples = members.front()->samples;
  auto outputs = level.padding && most > 1 && samples > most
                     ? run_in_parts(level, first.run_inputs(), samples, most, first.outputs, stop)
                     : level.run(first.run_inputs(), first.outputs, stop);
  if (!outputs) return tl::unexpected(outputs.error());
  std::vector<Outputs> answers;
  answers.push_back(std::move(*outputs));
  return answers;
}

void tell(Model& model, const LevelSlot& slot, const Told& run, const Error* error,
          const Ended& ended) {
  const Duration took = run.over - run.begun;
  const bool stopped = error != nullptr && error->code == Code::kCancelled;
  const bool refused = error != nullptr && error->code == Code::kInvalid;
  if (refused) return ended(std::nullopt);  // the request's own fault is nobody's failure
  if (error != nullptr && is_loss(slot, *error)) {
    if (error->code == Code::kWorkerLost) slot.metrics.run_failed(error->code, took);
    return ended(std::nullopt);
  }
  const std::string_view why = error != nullptr ? std::string_view(error->message) : "";
  // Of a run that was ended only this much is known: it took at least so long.
  const bool slow = took > model.config.policy.slow_factor * slot.config.target_p99;
  if (!stopped || slow) {
    model.ladder.tell(ladder::Outcome{.level = slot.config.level,
                                      .begun = run.begun,
                                      .ended = run.over,
                                      .queue = run.queue,
                                      .run = took,
                                      .ok = error == nullptr || stopped,
                                      .bucket = run.size.shape ^ run.size.samples,
                                      .stopped = stopped,
                                      .error = why,
                                      .asked_for = run.asked_for});
  }
  if (error == nullptr) slot.metrics.executed(run.size.samples, run.times());
  if (error != nullptr && !stopped) slot.metrics.run_failed(error->code, took);
  ended(Ran{.size = run.size,
            .run = took,
            .ok = error == nullptr,
            .stopped = stopped,
            .out_of_memory = error != nullptr &&
                             runtime::fault_class(*error) == runtime::FaultClass::kOutOfMemory});
}

/// @param members not yet begun; those that nobody waits for any more are left out
/// @param quick nobody could stop it in time
void run_members(Model& model, LevelSlot& slot, Members members, std::int64_t longest, bool quick,
                 const Ended& ended, const Clock& clock) {
  const LevelRuntime& level = *slot.runtime();
  const auto shared = quick ? nullptr : std::make_shared<SharedRun>(members.size());
  Told told{.begun = clock.now(), .queue = Duration::max()};
  std::erase_if(members, [&](const auto& member) {
    const bool wanted = member->begin(told.begun, shared);
    if (!wanted && shared) shared->leave();
    return !wanted;
  });
  if (members.empty()) return;
  std::uint32_t samples = 0;
  for (const auto& member : members) {
    told.queue = std::min(told.queue, told.begun - member->queued_at);
    samples += member->samples;
  }
  runtime::Stop* const stop = shared ? &shared->stop() : nullptr;
  told.joined = told.begun;
  auto answers = members.size() > 1 ? run_together(level, members, stop, clock, told)
                                    : run_alone(level, members, stop);
  told.over = clock.now();
  if (members.size() == 1) told.ran = told.over;

  const bool refused = !answers && answers.error().code == Code::kInvalid;
  if (refused && members.size() > 1) {  // whose fault it is, each by itself will tell
    for (const auto& member : members) {
      run_members(
          model, slot, {member}, member->length, quick, [](const auto&) {}, clock);
    }
    return;
  }
  told.size = size_of(*members.front(), samples, longest);
  told.asked_for =
      std::ranges::all_of(members, [](const auto& member) { return member->asked_for(); });
  tell(model, slot, told, answers ? nullptr : &answers.error(), ended);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (answers) {
      members[i]->answer(std::move((*answers)[i]), told.times());
    } else {
      members[i]->failed(answers.error());
    }
  }
}

}  // namespace

void run_on_level(Model& model, LevelSlot& slot, const Batch& batch, const Ended& ended,
                  const Clock& clock) {
  Members members;
  for (const auto& waiter : batch.members) {
    members.push_back(std::static_pointer_cast<Attempt>(waiter));
  }
  run_members(model, slot, std::move(members), batch.longest, batch.quick, ended, clock);
}

}  // namespace gradus::serving
