#include "worker/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace gradus::worker {
namespace {

constexpr std::size_t kFreeOutputs = 2;           // segments kept for the next runs
constexpr std::size_t kNeverOversized = 1 << 20;  // bytes
constexpr std::size_t kOversized =
    8;  // times what a run needs: a slot and some outputs, each roomy

Tensor owned_copy(const TensorView& view) {
  return make_tensor(view.dtype, view.shape, {view.data.begin(), view.data.end()});
}

// The least range that holds all inputs; empty ones lie anywhere.
std::span<const std::byte> hull(std::span<const TensorView> inputs) {
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;
  for (const TensorView& input : inputs) {
    if (input.data.empty()) continue;
    const std::byte* const begin = input.data.data();
    const std::byte* const end = begin + input.data.size();
    if (first == nullptr || std::less<>()(begin, first)) first = begin;
    if (last == nullptr || std::less<>()(last, end)) last = end;
  }
  return {first, last};
}

// As the worker lays them out (host.cc), whatever it says of where they lie; bounded, so that no
// sizes that it claims add up past the largest number.
std::uint64_t end_of(const std::vector<Placed>& outputs) {
  std::vector<std::uint64_t> sizes;
  for (const Placed& output : outputs) sizes.push_back(std::min(output.bytes, kMaxSegment));
  return layout(sizes).back();
}

}  // namespace

Result<Channel::Run> Channel::begin(std::uint64_t session, const runtime::RunInputs& inputs,
                                    std::span<const std::size_t> outputs,
                                    std::uint64_t new_output) {
  Run run;
  run.request.session = session;
  run.request.outputs.assign(outputs.begin(), outputs.end());
  run.request.optional_inputs.assign(inputs.optional.begin(), inputs.optional.end());
  run.request.inputs.reserve(inputs.views.size());
  copied_ = 0;
  ++runs_;
  if (!in_pool(inputs.views, run)) {
    if (auto copied = copy(inputs.views, run); !copied) return tl::unexpected(copied.error());
  }
  if (pool_ != nullptr) forget_blocks(run.request.dropped_blocks);
  output_ = take_output(new_output);
  wanted_ = outputs.size();
  run.request.output_segment = output_.id;
  run.request.dropped = drop_outputs();
  return run;
}

bool Channel::in_pool(std::span<const TensorView> inputs, Run& run) {
  if (pool_ == nullptr) return false;
  const auto all = hull(inputs);
  if (all.empty()) return false;
  auto place = pool_->find(all);
  if (!place) return false;
  for (const TensorView& input : inputs) {
    const auto from_first =
        input.data.empty() ? 0 : static_cast<std::uint64_t>(input.data.data() - all.data());
    const std::uint64_t offset = input.data.empty() ? 0 : place->offset + from_first;
    if (offset % alignment_of(input.dtype) != 0) {
      run.request.inputs.clear();
      return false;
    }
    run.request.inputs.push_back({input.dtype, input.shape, offset, input.data.size()});
  }
  run.request.input_block = place->block;
  if (!knows(place->block)) {
    run.fd = place->fd;
    blocks_.push_back({place->block, runs_});
  }
  hold_ = std::move(place->hold);
  return true;
}

bool Channel::knows(std::uint64_t block) {
  const auto known = std::ranges::find(blocks_, block, &Block::id);
  if (known == blocks_.end()) return false;
  known->used = runs_;
  return true;
}

// Those that went back to the system, and the one longest unused where there are too many: the
// worker's mapping is what keeps their memory.
void Channel::forget_blocks(std::vector<std::uint64_t>& dropped) {
  const auto drop = [&](const Block& block) {
    dropped.push_back(block.id);
    return true;
  };
  if (const std::uint64_t gone = pool_->gone(); gone != std::exchange(gone_, gone)) {
    std::erase_if(blocks_,
                  [&](const Block& block) { return !pool_->has(block.id) && drop(block); });
  }
  if (blocks_.size() > kMostBlocks) {
    const auto oldest = std::ranges::min_element(blocks_, {}, &Block::used);
    drop(*oldest);
    blocks_.erase(oldest);
  }
}

Result<void> Channel::copy(std::span<const TensorView> inputs, Run& run) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(inputs.size());
  for (const TensorView& input : inputs) sizes.push_back(input.data.size());
  const auto offsets = layout(sizes);
  if (slot_ == nullptr || slot_->size() < offsets.back()) {
    auto made = Segment::make(offsets.back());
    if (!made) return tl::unexpected(made.error());
    slot_ = std::move(*made);
    run.fd = slot_->fd();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    if (!input.data.empty()) {
      std::memcpy(slot_->writable().data() + offsets[i], input.data.data(), input.data.size());
    }
    run.request.inputs.push_back({input.dtype, input.shape, offsets[i], input.data.size()});
  }
  copied_ = offsets.back();
  return {};
}

// One that nobody reads any more, or a new one.
Channel::Output Channel::take_output(std::uint64_t new_id) {
  for (auto output = outputs_.begin(); output != outputs_.end(); ++output) {
    if (output->segment.use_count() > 1) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // after the last reader's release
    Output taken = std::move(*output);
    outputs_.erase(output);
    return taken;
  }
  return {new_id, nullptr};
}

// Takes free ones beyond those worth keeping off the list.
std::vector<std::uint64_t> Channel::drop_outputs() {
  std::vector<std::uint64_t> dropped;
  std::size_t kept = 0;
  std::erase_if(outputs_, [&](const Output& output) {
    if (output.segment.use_count() > 1 || kept++ < kFreeOutputs) return false;
    dropped.push_back(output.id);
    return true;
  });
  return dropped;
}

Result<Result<std::vector<Tensor>>> Channel::end(const Message& reply) {
  Reader reader(reply.body);
  const auto placed = get_run_reply(reader);
  if (!reader.at_end()) return fail(Code::kInternal, "its answer is unreadable");
  if (placed && placed->size() != wanted_) return fail(Code::kInternal, "its answer lacks outputs");
  if (reply.fd) {
    const std::size_t most = placed ? Segment::roomy(end_of(*placed)) : 0;
    auto opened = Segment::open(reply.fd, Segment::Pages::kAll, most);
    if (!opened) return tl::unexpected(opened.error());
    output_.segment = std::move(*opened);
  }
  const std::shared_ptr<const Segment> segment = output_.segment;
  if (segment != nullptr) outputs_.push_back(std::move(output_));
  if (!placed) {
    hold_ = nullptr;
    return Result<std::vector<Tensor>>(tl::unexpected(placed.error()));
  }
  const auto views =
      views_in(segment == nullptr ? std::span<const std::byte>() : segment->data(), *placed);
  if (!views) return tl::unexpected(views.error());
  std::vector<Tensor> tensors;
  tensors.reserve(views->size());
  std::size_t bytes = copied_;
  for (const TensorView& view : *views) {
    bytes += view.data.size();
    if (view.dtype != DType::kBytes) {
      tensors.push_back({view.dtype, view.shape, view.data, segment});
      continue;
    }
    tensors.push_back(owned_copy(view));  // lengths are among the bytes: they must not change
    const TensorView copy{view.dtype, view.shape, tensors.back().data};
    if (const auto fits = check_byte_size(copy); !fits) {
      return fail(Code::kInternal, fits.error().message);
    }
  }
  hold_ = nullptr;
  largest_ = std::max(largest_, bytes);
  return Result<std::vector<Tensor>>(std::move(tensors));
}

bool Channel::oversized() {
  std::size_t kept = slot_bytes();
  for (const Output& output : outputs_) kept += output.segment->size();
  return kept > kNeverOversized + kOversized * std::exchange(largest_, 0);
}

}  // namespace gradus::worker
