#include "fault_ep/compiled_graph.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "fault_ep/status.h"

namespace gradus::fault {
namespace {

bool is_float(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return true;
    default:
      return false;
  }
}

void copy_strings(const Ort::Value& from, Ort::UnownedValue& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string element = from.GetStringTensorElement(i);
    std::ranges::copy(element, to.GetResizedStringTensorElementBuffer(i, element.size()));
  }
}

// The node's outputs belong to the session that asks, so they are copied into it.
void hand_over(const Ort::Value& from, const Ort::KernelContext& context, std::size_t index,
               Fault spoil) {
  const auto info = from.GetTensorTypeAndShapeInfo();
  std::vector<std::int64_t> shape = info.GetShape();
  if (spoil == Fault::kTruncate && !shape.empty()) shape.back() /= 2;
  Ort::UnownedValue to = context.GetOutput(index, shape);
  if (info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    copy_strings(from, to, to.GetTensorTypeAndShapeInfo().GetElementCount());
    return;
  }
  const std::size_t size = to.GetTensorSizeInBytes();
  if (size == 0) return;
  if (spoil == Fault::kNan && is_float(info.GetElementType())) {
    std::memset(to.GetTensorMutableRawData(), 0xff, size);
  } else {
    std::memcpy(to.GetTensorMutableRawData(), from.GetTensorRawData(), size);
  }
}

}  // namespace

CompiledGraph::CompiledGraph(Setting setting, const std::string& model,
                             const Ort::SessionOptions& options, Ort::ConstNode fused)
    : OrtNodeComputeInfo{}, setting_(std::move(setting)) {
  ort_version_supported = ORT_API_VERSION;
  CreateState = create_state;
  Compute = compute;
  ReleaseState = release_state;
  // ONNX Runtime has one environment a process; this is one more reference to it.
  const Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "fault_ep");
  session_ = Ort::Session(env, model.c_str(), options);
  // What goes wrong is said by the outer session.
  run_options_.SetRunLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
  find_inputs(fused);
  for (const Ort::ConstValueInfo& output : fused.GetOutputs()) {
    outputs_.push_back(output.GetName());
  }
  for (const Input& input : inputs_) input_names_.push_back(input.name.c_str());
  for (const std::string& output : outputs_) output_names_.push_back(output.c_str());
}

// The fused node has inputs that the session does not know (constant initializers of the graph),
// and lacks those that no node reads, of which the session asks nothing either.
void CompiledGraph::find_inputs(Ort::ConstNode fused) {
  const std::vector<Ort::ConstValueInfo> given = fused.GetInputs();
  std::vector<std::string> wanted = session_.GetInputNames();
  std::ranges::move(session_.GetOverridableInitializerNames(), std::back_inserter(wanted));
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string name = given[i].GetName();
    if (std::ranges::find(wanted, name) != wanted.end()) inputs_.push_back({name, i});
  }
}

OrtStatus* ORT_API_CALL CompiledGraph::create_state(OrtNodeComputeInfo*, OrtNodeComputeContext*,
                                                    void** state) noexcept {
  *state = nullptr;  // a run needs nothing but the graph
  return nullptr;
}

void ORT_API_CALL CompiledGraph::release_state(OrtNodeComputeInfo*, void*) noexcept {}

OrtStatus* ORT_API_CALL CompiledGraph::compute(OrtNodeComputeInfo* self, void*,
                                               OrtKernelContext* context) noexcept {
  return guarded(
      [&] { static_cast<const CompiledGraph*>(self)->run(Ort::KernelContext(context)); });
}

std::int64_t CompiledGraph::samples(const Ort::KernelContext& context) const {
  if (inputs_.empty()) return 1;
  const auto shape = context.GetInput(inputs_[0].from).GetTensorTypeAndShapeInfo().GetShape();
  return shape.empty() ? 1 : shape[0];
}

void CompiledGraph::run(const Ort::KernelContext& context) const {
  Layout& control = **setting_.control;
  ++control.runs;
  const Verdict verdict = strike(control, Place::kRun, setting_.devices, samples(context));
  obey(verdict);
  std::vector<const OrtValue*> inputs;
  inputs.reserve(inputs_.size());
  for (const Input& input : inputs_) {
    inputs.push_back(context.GetInput(input.from));
  }
  std::vector<OrtValue*> made(output_names_.size(), nullptr);
  Ort::ThrowOnError(Ort::GetApi().Run(session_, run_options_, input_names_.data(), inputs.data(),
                                      inputs.size(), output_names_.data(), output_names_.size(),
                                      made.data()));
  std::vector<Ort::Value> outputs;
  outputs.reserve(made.size());
  for (OrtValue* value : made) outputs.emplace_back(value);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    hand_over(outputs[i], context, i, verdict.outputs);
  }
  ++control.ok;
}

}  // namespace gradus::fault
