// A backend that does what a test tells it: doubles its input `x`, fails, or waits.
#pragma once
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/load.h"

namespace gradus::support {

/// What a test holds on to; shared with the backend.
struct FakeLevel {
  /// Called with each run before it answers; an error makes the run fail with it.
  std::function<Result<void>()> before = [] { return Result<void>(); };
  /// As `before`, after it, and told what the run was given.
  std::function<Result<void>(std::span<const float>)> before_values = [](std::span<const float>) {
    return Result<void>();
  };
  std::atomic<int> runs{0};
  /// Runs do not end by themselves while it is true …
  std::atomic<bool> hangs{false};
  std::atomic<int> stopped{0};  // … but so many have been ended
  /// The first dimension of each run's input, in the order in which they got past `before`.
  std::vector<std::int64_t> batches() const {
    const std::lock_guard lock(mutex);
    return seen;
  }
  mutable std::mutex mutex;
  std::vector<std::int64_t> seen;
  float factor = 2;  // tells levels apart by their answers
  // Before it is loaded.
  std::string input = "x";
  bool takes_scale = false;    // and multiplies by it: an optional input like the first
  std::atomic<int> scaled{0};  // runs that it was given to
};

class FakeBackend final : public runtime::Backend {
 public:
  explicit FakeBackend(std::shared_ptr<FakeLevel> level) : level_(std::move(level)) {}

  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs,
                                  std::span<const std::size_t> outputs,
                                  runtime::Stop* stop) override {
    ++level_->runs;
    while (level_->hangs) {
      if (stop != nullptr && stop->requested()) {
        ++level_->stopped;
        return fail(Code::kCancelled, "ended");
      }
      std::this_thread::yield();
    }
    if (const auto ok = level_->before(); !ok) return tl::unexpected(ok.error());
    {
      const std::lock_guard lock(level_->mutex);
      level_->seen.push_back(inputs.views[0].shape[0]);
    }
    std::vector<float> values(inputs.views[0].data.size() / sizeof(float));
    std::memcpy(values.data(), inputs.views[0].data.data(), inputs.views[0].data.size());
    if (const auto ok = level_->before_values(values); !ok) return tl::unexpected(ok.error());
    for (float& value : values) value *= level_->factor;
    if (!inputs.optional.empty()) {
      ++level_->scaled;
      std::vector<float> scale(inputs.views[1].data.size() / sizeof(float));
      std::memcpy(scale.data(), inputs.views[1].data.data(), inputs.views[1].data.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scale.at(i);
    }
    std::vector<std::byte> bytes(inputs.views[0].data.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return std::vector<Tensor>(outputs.size(),
                               make_tensor(DType::kFp32, inputs.views[0].shape, std::move(bytes)));
  }

 private:
  std::vector<runtime::TensorSpec> optional_inputs() const {
    if (!level_->takes_scale) return {};
    return {{"scale", DType::kFp32, {-1}}};
  }

  const std::shared_ptr<FakeLevel> level_;
  const runtime::Signature signature_{.inputs = {{level_->input, DType::kFp32, {-1}}},
                                      .outputs = {{"y", DType::kFp32, {-1}}},
                                      .optional_inputs = optional_inputs()};
  const std::vector<runtime::Placement> placement_{{"CPUExecutionProvider", 1}};
};

}  // namespace gradus::support
