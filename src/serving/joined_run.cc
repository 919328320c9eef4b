#include "serving/joined_run.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "batch/join.h"
#include "runtime/sample_inputs.h"
#include "worker/shared_pool.h"

namespace gradus::serving {
namespace {

using Outputs = std::vector<Tensor>;  // of one request

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// All of one run lie in one buffer, so that a worker can map them at once.
class Joiner {
 public:
  Result<void> add(std::string_view name, std::vector<const TensorView*> parts,
                   const batch::Pad* pad) {
    auto plan = batch::plan_join(name, parts, pad);
    if (!plan) return fail(Code::kUnavailable, plan.error().message);
    bytes_ += aligned(plan->bytes);
    tensors_.push_back({std::move(parts), std::move(*plan), pad});
    return {};
  }

  Result<std::vector<Tensor>> join(worker::SharedPool& pool) {
    const worker::PoolBuffer memory = pool.acquire(std::max(bytes_, kAlignment));
    if (memory.owner == nullptr) {
      return fail(Code::kUnavailable,
                  "no memory for a batch of " + std::to_string(bytes_) + " bytes");
    }
    std::vector<Tensor> joined;
    std::size_t at = 0;
    for (One& one : tensors_) {
      const std::span<std::byte> into(memory.data + at, one.plan.bytes);
      batch::join(one.parts, one.plan, into, one.pad);
      at += aligned(one.plan.bytes);
      joined.push_back({one.parts.front()->dtype, std::move(one.plan.shape), into, memory.owner});
    }
    return joined;
  }

 private:
  struct One {
    std::vector<const TensorView*> parts;
    batch::Joined plan;
    const batch::Pad* pad;
  };
  std::vector<One> tensors_;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<std::vector<Tensor>> join_inputs(const LevelRuntime& level, const batch::Padding& padding,
                                        std::span<const Part> parts) {
  Joiner joiner;
  const runtime::RunInputs& first = parts.front().inputs;
  for (std::size_t i = 0; i < first.views.size(); ++i) {
    std::vector<const TensorView*> views;
    for (const Part& part : parts) views.push_back(&part.inputs.views[i]);
    const std::string& name = first.spec(level.signature(), i).name;
    auto added = joiner.add(name, std::move(views), padding.pad(i));
    if (!added) return tl::unexpected(added.error());
  }
  return joiner.join(*level.memory);
}

Result<std::vector<Outputs>> split_outputs(const LevelRuntime& level, const batch::Padding& padding,
                                           std::span<const Part> parts,
                                           std::span<const std::size_t> wanted,
                                           std::span<const Tensor> outputs) {
  std::vector<batch::Share> shares;
  for (const Part& part : parts) shares.push_back(part.share);
  std::vector<Outputs> answers(parts.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = level.signature().outputs[wanted[i]].name;
    auto cut = batch::split(name, outputs[i], shares, padding.tied(wanted[i]));
    if (!cut) return fail(Code::kUnavailable, cut.error().message);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      answers[part].push_back(std::move((*cut)[part]));
    }
  }
  return answers;
}

Result<std::vector<Outputs>> run_joined(const LevelRuntime& level, const batch::Padding& padding,
                                        std::span<const Part> parts,
                                        std::span<const std::size_t> wanted, runtime::Stop* stop) {
  const auto inputs = join_inputs(level, padding, parts);
  if (!inputs) return tl::unexpected(inputs.error());
  const std::vector<TensorView> views = runtime::views_of(*inputs);
  const auto outputs = level.run({views, parts.front().inputs.optional}, wanted, stop);
  if (!outputs) return tl::unexpected(outputs.error());
  return split_outputs(level, padding, parts, wanted, *outputs);
}

}  // namespace gradus::serving
