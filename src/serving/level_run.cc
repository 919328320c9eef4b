#include "serving/level_run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/fault_class.h"
#include "serving/in_flight.h"
#include "serving/joined_run.h"

namespace gradus::serving {
namespace {

using Outputs = std::vector<Tensor>;                     // of one request
using Members = std::vector<std::shared_ptr<InFlight>>;  // of one run

Result<std::vector<Outputs>> run(const LevelSlot& slot, const LevelRuntime& level,
                                 const Members& members) {
  const BoundRequest& first = members.front()->bound();
  if (members.size() > 1) {
    std::vector<Part> parts;
    for (const auto& member : members) {
      parts.push_back({member->bound().inputs, {member->samples, member->length}});
    }
    return run_joined(level, *level.padding, parts, first.outputs);
  }
  const std::uint32_t most = slot.config.max_batch_size;
  const std::uint32_t samples = members.front()->samples;
  auto outputs = level.padding && most > 1 && samples > most
                     ? run_in_parts(level, first.inputs, samples, most, first.outputs,
                                    [&] { return !members.front()->finished(); })
                     : level.run(first.inputs, first.outputs);
  if (!outputs) return tl::unexpected(outputs.error());
  std::vector<Outputs> answers;
  answers.push_back(std::move(*outputs));
  return answers;
}

void run_members(Model& model, LevelSlot& slot, const Members& members, std::int64_t longest,
                 const Ended& ended, const Clock& clock) {
  const LevelRuntime& level = *slot.runtime();
  const TimePoint begun = clock.now();
  Duration queue = Duration::max();
  std::uint32_t samples = 0;
  for (const auto& member : members) {
    queue = std::min(queue, begun - member->queued_at);
    samples += member->samples;
    member->begin(begun);
  }
  auto answers = run(slot, level, members);
  const TimePoint over = clock.now();

  const bool refused = !answers && answers.error().code == Code::kInvalid;
  if (refused && members.size() > 1) {  // whose fault it is, each by itself will tell
    for (const auto& member : members) {
      run_members(
          model, slot, {member}, member->length, [](const auto&) {}, clock);
    }
    return;
  }
  const bool unwanted = !answers && answers.error().code == Code::kDeadline;
  if (refused || unwanted) {  // the request's own fault is nobody's failure
    ended(std::nullopt);
  } else {
    const ladder::Size size = size_of(*members.front(), samples, longest);
    model.ladder.tell(ladder::Outcome{.level = slot.config.level,
                                      .begun = begun,
                                      .ended = over,
                                      .queue = queue,
                                      .run = over - begun,
                                      .ok = answers.has_value(),
                                      .bucket = size.shape ^ size.samples});
    ended(Ran{
        size, over - begun, answers.has_value(),
        !answers && runtime::fault_class(answers.error()) == runtime::FaultClass::kOutOfMemory});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (answers) {
      members[i]->answer(slot, std::move((*answers)[i]), over - begun);
    } else {
      members[i]->failed(slot, answers.error());
    }
  }
}

}  // namespace

void run_on_level(Model& model, LevelSlot& slot, const Batch& batch, const Ended& ended,
                  const Clock& clock) {
  Members members;
  for (const auto& waiter : batch.members) {
    auto member = std::static_pointer_cast<InFlight>(waiter);
    if (!member->finished()) members.push_back(std::move(member));
  }
  if (!members.empty()) run_members(model, slot, members, batch.longest, ended, clock);
}

}  // namespace gradus::serving
