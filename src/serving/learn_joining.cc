#include "serving/learn_joining.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "batch/batchable.h"
#include "runtime/sample_inputs.h"
#include "serving/joined_run.h"

namespace gradus::serving {
namespace {

constexpr double kTolerance = 1e-2;  // of the largest value of the tensor

using WhyNot = tl::expected<std::string, LostRun>;

// Why not to join: an error of a run of so many samples, unless it ended the worker.
WhyNot why_not(const Error& error, std::int64_t samples) {
  if (error.code == Code::kWorkerLost) return tl::unexpected(LostRun{error, samples});
  return error.message;
}

// Made-up inputs and what the level answers to them by themselves.
struct Trial {
  std::int64_t batch = 1;
  std::int64_t length = 0;
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  std::vector<Tensor> outputs;

  batch::Observed observed(std::int64_t size) const {
    batch::Observed seen{size, {}};
    for (const Tensor& output : outputs) seen.outputs.push_back(output.shape);
    return seen;
  }
};

Result<Trial> try_out(const LevelRuntime& level, std::int64_t batch, std::int64_t length) {
  Trial trial{.batch = batch,
              .length = length,
              .inputs = runtime::sample_inputs(level.signature(), length, batch)};
  trial.views = runtime::views_of(trial.inputs);
  auto outputs = level.run(trial.views, level.all_outputs());
  if (!outputs) return tl::unexpected(outputs.error());
  trial.outputs = std::move(*outputs);
  return trial;
}

std::vector<batch::Port> ports(const std::vector<runtime::TensorSpec>& specs) {
  std::vector<batch::Port> ports;
  ports.reserve(specs.size());
  for (const runtime::TensorSpec& spec : specs) {
    ports.push_back({spec.name, spec.dtype, spec.shape});
  }
  return ports;
}

template <class T>
bool close_to(const Tensor& a, const Tensor& b) {
  const std::size_t count = a.data.size() / sizeof(T);
  std::vector<T> left(count), right(count);
  std::memcpy(left.data(), a.data.data(), count * sizeof(T));
  std::memcpy(right.data(), b.data.data(), count * sizeof(T));
  double largest = 0;
  for (const T value : left) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(left[i]) - static_cast<double>(right[i]);
    if (left[i] != right[i] && !(std::abs(difference) <= kTolerance * largest)) return false;
  }
  return true;
}

// Half precision is not looked into: its shapes must do.
bool same_values(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape || a.data.size() != b.data.size()) return false;
  if (a.dtype == DType::kFp32) return close_to<float>(a, b);
  if (a.dtype == DType::kFp64) return close_to<double>(a, b);
  if (a.dtype == DType::kFp16 || a.dtype == DType::kBf16) return true;
  return a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

// "" if both get in one run what they got by themselves.
WhyNot why_joining_fails(const LevelRuntime& level, const batch::Padding& padding, const Trial& one,
                         const Trial& other) {
  const auto part = [&](const Trial& trial) {
    return Part{trial.views,
                {static_cast<std::uint32_t>(trial.batch), padding.any() ? trial.length : 0}};
  };
  const Part parts[] = {part(one), part(other)};
  const auto together = run_joined(level, padding, parts, level.all_outputs());
  if (!together) return why_not(together.error(), one.batch + other.batch);
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    if (same_values(one.outputs[i], (*together)[0][i]) &&
        same_values(other.outputs[i], (*together)[1][i])) {
      continue;
    }
    return "output '" + level.signature().outputs[i].name + "' differs between runs alone and " +
           (padding.any() ? "padded" : "joined") + " ones";
  }
  return "";
}

// Padding::outputs, and a trial of another length; the error says why nothing may be padded.
Result<Trial> learn_lengths(const LevelRuntime& level, const batch::Model& model,
                            const Trial& usual, batch::Padding& padding) {
  auto other = try_out(level, 1, usual.length + usual.length / 2 + 1);
  const bool lost = !other && other.error().code == Code::kWorkerLost;
  if (!other && !lost && usual.length > 1) other = try_out(level, 1, usual.length / 2);
  if (!other) return other;
  auto tied =
      batch::learn_tied(model, usual.observed(usual.length), other->observed(other->length));
  if (!tied) return tl::unexpected(tied.error());
  padding.outputs = std::move(*tied);
  return other;
}

}  // namespace

tl::expected<Joining, LostRun> learn_joining(const LevelRuntime& level,
                                             const std::map<std::string, double>& pad,
                                             std::int64_t size) {
  const auto alone = [](const std::string& why) {
    return Joining{std::nullopt, "requests are not joined: " + why};
  };
  const batch::Model model{ports(level.signature().inputs), ports(level.signature().outputs)};
  if (const auto why = batch::why_not_batchable(model)) return alone(*why);
  auto planned = batch::plan_padding(model, pad);
  if (!planned) return alone("pad: " + planned.error().message);

  const auto one = try_out(level, 1, size);
  if (!one) return why_not(one.error(), 1).map(alone);
  const auto two = try_out(level, 2, size);
  if (!two) {
    return why_not(two.error(), 2).map([&](const auto& text) {
      return alone("a batch of 2 fails: " + text);
    });
  }
  if (const auto why =
          batch::why_outputs_do_not_follow(model, one->observed(1), two->observed(2))) {
    return alone(*why);
  }

  std::string note;
  if (planned->any()) {
    const auto other = learn_lengths(level, model, *one, *planned);
    const auto unequal =
        other ? why_joining_fails(level, *planned, *two, *other) : why_not(other.error(), 1);
    if (!unequal) return tl::unexpected(unequal.error());
    if (unequal->empty()) return Joining{std::move(*planned), ""};
    note = "requests of unequal lengths are not joined: " + *unequal;
  }
  const batch::Padding plain;
  return why_joining_fails(level, plain, *two, *one).map([&](const std::string& fails) {
    return fails.empty() ? Joining{plain, note} : alone(fails);
  });
}

}  // namespace gradus::serving
