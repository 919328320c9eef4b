#include "tools/drill_sample.h"

#include <simdjson.h>

#include <array>

#include "base/json_text.h"
#include "runtime/sample_inputs.h"
#include "tensor/dtype.h"
#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLimit = 30s;  // of one answer
constexpr std::array<std::int64_t, 7> kSizes = {64, 32, 128, 224, 256, 16, 1};

Result<runtime::Signature> signature_in(const std::string& metadata) {
  simdjson::dom::parser parser;
  simdjson::dom::array inputs;
  if (parser.parse(metadata)["inputs"].get(inputs) != simdjson::SUCCESS) {
    return fail(Code::kInternal, "no metadata of a model: " + metadata.substr(0, 200));
  }
  runtime::Signature signature;
  for (const simdjson::dom::element input : inputs) {
    std::string_view name;
    std::string_view datatype;
    simdjson::dom::array dims;
    if (input["name"].get(name) != simdjson::SUCCESS ||
        input["datatype"].get(datatype) != simdjson::SUCCESS ||
        input["shape"].get(dims) != simdjson::SUCCESS) {
      return fail(Code::kInternal, "an input without name, datatype or shape");
    }
    const auto dtype = parse_dtype(datatype);
    if (!dtype) return fail(Code::kInternal, "unknown datatype " + std::string(datatype));
    Shape shape;
    for (const simdjson::dom::element dim : dims) shape.push_back(dim.get_int64().value_unsafe());
    signature.inputs.push_back({std::string(name), *dtype, std::move(shape)});
  }
  return signature;
}

std::string infer_request(const std::string& model, const std::string& inputs,
                          const std::string& tensors, const std::string& parameters) {
  const std::string json = "{\"parameters\":{\"binary_data_output\":true" + parameters +
                           "},\"inputs\":[" + inputs + "]}";
  return http_request(
      "POST", "/v2/models/" + model + "/infer",
      "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
          std::to_string(json.size()) + "\r\n",
      json + tensors);
}

std::string only(int level) {
  return ",\"min_level\":" + std::to_string(level) + ",\"max_level\":" + std::to_string(level);
}

std::string inputs_json(const runtime::Signature& signature, std::span<const Tensor> tensors) {
  std::string json;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) json += ',';
    json +=
        "{\"name\":" + json_string(signature.inputs[i].name) + ",\"datatype\":\"" +
        std::string(dtype_name(tensors[i].dtype)) + "\",\"shape\":" + shape_text(tensors[i].shape) +
        ",\"parameters\":{\"binary_data_size\":" + std::to_string(tensors[i].data.size()) + "}}";
  }
  return json;
}

std::string bytes_of(std::span<const Tensor> tensors) {
  std::string bytes;
  for (const Tensor& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return bytes;
}

}  // namespace

Result<Sample> Sample::take(std::uint16_t port, const std::string& model,
                            std::span<const int> levels, int cpu_level, double tolerance) {
  const auto ask = [port](const std::string& request) {
    return exchange(port, request, steady_clock().now() + kLimit);
  };
  const auto metadata = ask(http_request("GET", "/v2/models/" + model, "", ""));
  if (!metadata) return tl::unexpected(metadata.error());
  const auto signature = signature_in(metadata->body);
  if (!signature) return tl::unexpected(signature.error());

  Sample sample;
  sample.model_ = model;
  std::string refusal;
  for (const std::int64_t size : kSizes) {
    const std::vector<Tensor> tensors = runtime::sample_inputs(*signature, size);
    sample.inputs_ = inputs_json(*signature, tensors);
    sample.tensors_ = bytes_of(tensors);
    const auto answer = ask(infer_request(model, sample.inputs_, sample.tensors_, only(cpu_level)));
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status == 200) {
      auto right = right_answer(*answer, tolerance);
      if (!right) return tl::unexpected(right.error());
      sample.right_[cpu_level] = std::move(*right);
      break;
    }
    if (refusal.empty()) refusal = answer->body;
  }
  if (sample.right_.empty()) {
    return fail(Code::kInvalid, "the model takes none of the made-up inputs: " + refusal);
  }
  for (const int level : levels) {
    const auto answer = ask(infer_request(model, sample.inputs_, sample.tensors_, only(level)));
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status != 200) {
      return fail(Code::kUnavailable,
                  "level " + std::to_string(level) + " does not answer: " + answer->body);
    }
    if ((level == 0 || level == cpu_level) &&
        !agrees(sample.right_[cpu_level], answer->tensors())) {
      return fail(Code::kInternal, "level " + std::to_string(level) +
                                       " does not give the CPU level's answer (tolerance " +
                                       std::to_string(tolerance) + " of the greatest value)");
    }
    auto right = right_answer(*answer, tolerance);
    if (!right) return tl::unexpected(right.error());
    sample.right_[level] = std::move(*right);
  }
  return sample;
}

LoadPlan Sample::plan(std::uint16_t port) const {
  return {port, infer_request(model_, inputs_, tensors_, ""), right_};
}

LoadPlan Sample::plan(std::uint16_t port, int level) const {
  return {port, infer_request(model_, inputs_, tensors_, only(level)), right_};
}

}  // namespace gradus::tools
