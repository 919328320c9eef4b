#include "runtime/ort/session.h"

#include <malloc.h>
#include <onnxruntime_run_options_config_keys.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/fault_class.h"
#include "runtime/ort/api_since_24.h"
#include "runtime/ort/error_text.h"
#include "runtime/ort/ort_log.h"
#include "runtime/ort/placement.h"
#include "runtime/ort/provider_append.h"
#include "runtime/ort/values.h"

namespace gradus::runtime {
namespace {

enum class Side { kInput, kOutput };

Result<TensorSpec> spec_of(std::string name, const Ort::TypeInfo& type, Side side) {
  const std::string who = (side == Side::kInput ? "input '" : "output '") + name + "' ";
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) {
    return fail(Code::kUnavailable, who + "is no tensor; only tensors can be served");
  }
  const auto info = type.GetTensorTypeAndShapeInfo();
  const auto dtype = dtype_of(info.GetElementType());
  if (!dtype) {
    return fail(Code::kUnavailable, who + "has ONNX type " + std::to_string(info.GetElementType()) +
                                        ", which the protocol does not have");
  }
  const ApiSince24 api;
  if (side == Side::kInput && api && !api.tensor_has_shape()(info)) {
    return fail(Code::kUnavailable, who + "has no shape; its number of dimensions must be fixed");
  }
  return TensorSpec{std::move(name), *dtype, info.GetShape()};
}

std::vector<const char*> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<const char*> names;
  names.reserve(specs.size());
  for (const TensorSpec& spec : specs) names.push_back(spec.name.c_str());
  return names;
}

bool device_failed(const LogCapture& log) {
  return std::ranges::any_of(log.causes(), [](const std::string& line) {
    return line.starts_with("WebGPU device error");
  });
}

std::optional<MutexLock> lock_if(Mutex* mutex) {
  if (mutex == nullptr) return std::nullopt;
  return std::optional<MutexLock>(std::in_place, *mutex);
}

void set_up(Ort::RunOptions& options, bool shrink) {
  // What goes wrong in a run is in its answer; ONNX Runtime need not log it once more.
  options.SetRunLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
  if (shrink) options.AddConfigEntry(kOrtRunOptionsConfigEnableMemoryArenaShrinkage, "cpu:0");
}

class Stoppable final : public Stop::Target {
 public:
  explicit Stoppable(bool shrink) { set_up(options_, shrink); }
  const Ort::RunOptions& get() const { return options_; }
  void stop() override { options_.SetTerminate(); }

 private:
  Ort::RunOptions options_;
};

Result<Signature> signature_of(const Ort::Session& session,
                               const std::vector<std::string>& overridable) {
  Signature signature;
  const Ort::AllocatorWithDefaultOptions allocator;
  for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
    auto spec = spec_of(session.GetInputNameAllocated(i, allocator).get(),
                        session.GetInputTypeInfo(i), Side::kInput);
    if (!spec) return tl::unexpected(spec.error());
    signature.inputs.push_back(std::move(*spec));
  }
  const std::size_t initializers =
      overridable.empty() ? 0 : session.GetOverridableInitializerCount();
  for (std::size_t i = 0; i < initializers; ++i) {
    std::string name = session.GetOverridableInitializerNameAllocated(i, allocator).get();
    if (std::ranges::find(overridable, name) == overridable.end()) continue;
    auto spec =
        spec_of(std::move(name), session.GetOverridableInitializerTypeInfo(i), Side::kInput);
    if (!spec) return tl::unexpected(spec.error());
    signature.optional_inputs.push_back(std::move(*spec));
  }
  for (std::size_t i = 0; i < session.GetOutputCount(); ++i) {
    auto spec = spec_of(session.GetOutputNameAllocated(i, allocator).get(),
                        session.GetOutputTypeInfo(i), Side::kOutput);
    if (!spec) return tl::unexpected(spec.error());
    signature.outputs.push_back(std::move(*spec));
  }
  return signature;
}

}  // namespace

Result<std::unique_ptr<OrtSession>> OrtSession::make(std::shared_ptr<Environment> environment,
                                                     Ort::Session session, std::string provider,
                                                     const std::vector<std::string>& overridable) {
  const bool on_cpu = provider == kCpuProvider;
  Mutex* one_at_a_time = provider == kWebGpuProvider ? &environment->webgpu().mutex : nullptr;
  std::unique_ptr<OrtSession> made(
      new OrtSession(std::move(environment), std::move(session), on_cpu, one_at_a_time));
  auto signature = signature_of(made->session_, overridable);
  if (!signature) return tl::unexpected(signature.error());
  made->signature_ = std::move(*signature);
  made->input_names_ = names_of(made->signature_.inputs);
  made->output_names_ = names_of(made->signature_.outputs);
  auto placement = placement_of(made->session_);
  if (!placement && !on_cpu) return tl::unexpected(placement.error());
  if (placement) made->placement_ = std::move(*placement);
  return made;
}

OrtSession::OrtSession(std::shared_ptr<Environment> environment, Ort::Session session, bool on_cpu,
                       Mutex* one_at_a_time)
    : environment_(std::move(environment)),
      session_(std::move(session)),
      on_cpu_(on_cpu),
      one_at_a_time_(one_at_a_time),
      cpu_memory_(Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault)) {
  set_up(run_options_, false);
  set_up(shrinking_run_options_, true);
}

OrtSession::~OrtSession() {
  const auto lock = lock_if(one_at_a_time_);
  session_ = Ort::Session(nullptr);
}

// A run that may be ended has options of its own: the flag that ends one ends all that share it.
Result<std::vector<Tensor>> OrtSession::run(const RunInputs& inputs,
                                            std::span<const std::size_t> outputs, Stop* stop) {
  // That a device had no memory for a buffer WebGPU only logs: the run goes on without it.
  std::optional<LogCapture> log;
  if (one_at_a_time_ != nullptr) log.emplace();
  try {
    std::vector<const char*> names;  // where there are more than every run gives
    if (!inputs.optional.empty()) names = names_with(inputs.optional);
    auto bound = bind(inputs);
    if (!bound) return tl::unexpected(bound.error());
    std::uint64_t input_bytes = 0;
    for (const TensorView& input : inputs.views) input_bytes += input.data.size();
    std::vector<const char*> wanted;
    wanted.reserve(outputs.size());
    for (const std::size_t index : outputs) wanted.push_back(output_names_.at(index));
    std::vector<Ort::Value> values;
    values.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) values.emplace_back(nullptr);
    const bool shrink = shrink_rule_.should_shrink(input_bytes);
    const auto run_with = [&](const Ort::RunOptions& options) {
      const auto lock = lock_if(one_at_a_time_);
      session_.Run(options, names.empty() ? input_names_.data() : names.data(), bound->data(),
                   bound->size(), wanted.data(), values.data(), values.size());
    };
    if (stop != nullptr) {
      Stoppable options(shrink);
      const Stop::Scope scope(stop, options);
      run_with(options.get());
    } else {
      run_with(shrink ? shrinking_run_options_ : run_options_);
    }
    if (log && device_failed(*log)) {
      const std::string text = error_text("the outputs cannot be trusted", *log);
      return fail(code_of(fault_class(ORT_FAIL, text, on_cpu_)), text);
    }
    if (shrink) malloc_trim(0);  // what lies in the arena was given to malloc, or never left it
    return take(std::move(values), outputs);
  } catch (const Ort::Exception& e) {
    if (stop != nullptr && stop->requested()) return fail(Code::kCancelled, "the run was ended");
    static_assert(ORT_INVALID_ARGUMENT == kOrtInvalidArgument);
    const std::string text = log ? error_text(e.what(), *log) : error_text(e.what());
    return fail(code_of(fault_class(e.GetOrtErrorCode(), text, on_cpu_)), text);
  } catch (const std::exception& e) {  // for want of memory
    return fail(Code::kUnavailable, e.what());
  }
}

std::vector<const char*> OrtSession::names_with(std::span<const std::size_t> optional) const {
  std::vector<const char*> names = input_names_;
  for (const std::size_t index : optional) {
    names.push_back(signature_.optional_inputs.at(index).name.c_str());
  }
  return names;
}

Result<std::vector<Ort::Value>> OrtSession::bind(const RunInputs& inputs) const {
  const std::size_t count = signature_.inputs.size() + inputs.optional.size();
  if (inputs.views.size() != count) {
    return fail(Code::kInvalid, std::to_string(inputs.views.size()) + " inputs, the model has " +
                                    std::to_string(count));
  }
  std::vector<Ort::Value> bound;
  bound.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto value = bind_input(inputs.views[i], cpu_memory_);
    if (!value) {
      return fail(value.error().code,
                  "input '" + inputs.spec(signature_, i).name + "' " + value.error().message);
    }
    bound.push_back(std::move(*value));
  }
  return bound;
}

Result<std::vector<Tensor>> OrtSession::take(std::vector<Ort::Value> values,
                                             std::span<const std::size_t> outputs) const {
  std::vector<Tensor> tensors;
  tensors.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const TensorSpec& spec = signature_.outputs[outputs[i]];
    auto tensor = take_output(std::move(values[i]), spec.dtype);
    if (!tensor)
      return fail(tensor.error().code, "output '" + spec.name + "': " + tensor.error().message);
    if (check_ == config::CheckOutputs::kFinite && !all_finite(*tensor)) {
      return fail(Code::kUnavailable, "output '" + spec.name + "' is not finite");
    }
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

}  // namespace gradus::runtime
