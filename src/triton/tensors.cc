#include "triton/tensors.h"

#include <model_config.pb.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include "base/json_text.h"
#include "tensor/tensor.h"
#include "triton/sorted_keys.h"

namespace gradus::triton {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::uintmax_t kMostLabelBytes = 64 << 20;
constexpr std::uint64_t kMostWarmupBytes = 1 << 30;
constexpr std::uint32_t kMostWarmupRuns = 1000;

std::string at(const char* field, int index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

/// The protocol's spelling; "" where none is given.
std::string datatype_of(inference::DataType type) {
  if (type == inference::TYPE_INVALID) return "";
  if (type == inference::TYPE_STRING) return "BYTES";
  return inference::DataType_Name(type).substr(std::string_view("TYPE_").size());
}

Dims dims_of(const google::protobuf::RepeatedField<std::int64_t>& dims) {
  return {dims.begin(), dims.end()};
}

bool good_dims(const Dims& dims, const std::string& path, Findings& findings) {
  for (const std::int64_t dim : dims) {
    if (dim < 1 && dim != -1) {
      findings.refuse(path,
                      shape_text(dims) + ": dimensions must be at least 1, or -1 for variable");
      return false;
    }
  }
  return true;
}

/// The fixed elements before, between and behind variable dimensions.
std::vector<std::int64_t> fixed_parts(const Dims& dims) {
  std::vector<std::int64_t> parts{1};
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      parts.push_back(1);
    } else if (__builtin_mul_overflow(parts.back(), dim, &parts.back())) {
      parts.back() = -1;
    }
  }
  return parts;
}

/// What inputs and outputs have in common.
template <class Message>
std::optional<config::DeclaredTensor> read_tensor(const Message& message, const std::string& path,
                                                  bool has_batch, std::set<std::string>& names,
                                                  Findings& findings) {
  const std::size_t before = findings.faults.size();
  config::DeclaredTensor tensor;
  tensor.name = message.name();
  if (tensor.name.empty()) {
    findings.refuse(path, "name: missing");
  } else if (!names.insert(tensor.name).second) {
    findings.refuse(path + ".name", json_string(tensor.name) + " is there twice");
  }
  tensor.datatype = datatype_of(message.data_type());
  Dims dims = dims_of(message.dims());
  if (good_dims(dims, path + ".dims", findings) && !dims.empty()) tensor.dims = dims;
  if (message.has_reshape()) {
    Dims shape = dims_of(message.reshape().shape());
    if (!good_dims(shape, path + ".reshape", findings)) {
      // said
    } else if (dims.empty()) {
      findings.refuse(path + ".reshape", "needs dims beside it");
    } else if (shape.empty() && !has_batch) {
      findings.refuse(path + ".reshape",
                      "shape: missing; only behind a batch dimension may it be "
                      "empty");
    } else if (fixed_parts(dims) != fixed_parts(shape)) {
      findings.refuse(path + ".reshape",
                      shape_text(shape) + ": must have as many elements as dims " +
                          shape_text(dims) + ", and variable dimensions in the same places");
    } else {
      tensor.reshape = std::move(shape);
    }
  }
  if (message.is_shape_tensor()) {
    findings.refuse(path + ".is_shape_tensor", "only models of TensorRT have such tensors");
  }
  if (message.is_non_linear_format_io()) {
    findings.refuse(path + ".is_non_linear_format_io", "only models of TensorRT have such tensors");
  }
  if (findings.faults.size() != before) return std::nullopt;
  return tensor;
}

void read_inputs(const inference::ModelConfig& message, config::Declared& out, Findings& findings) {
  std::set<std::string> names;
  for (int i = 0; i < message.input_size(); ++i) {
    const inference::ModelInput& input = message.input(i);
    const std::string path = at("input", i);
    auto tensor = read_tensor(input, path, out.has_batch(), names, findings);
    if (input.format() != inference::ModelInput::FORMAT_NONE) {
      findings.ignore(path + ".format", "tensors are passed on as they come");
    }
    if (input.allow_ragged_batch()) {
      findings.ignore(
          path + ".allow_ragged_batch",
          "unequal requests run together where they can be padded (`pad` in gradus.yaml)");
    }
    if (!tensor) continue;
    tensor->optional = input.optional();
    out.inputs.push_back(std::move(*tensor));
  }
}

std::optional<std::vector<std::string>> read_labels(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error || size > kMostLabelBytes) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> labels;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(line);
  }
  if (in.bad()) return std::nullopt;
  return labels;
}

void read_outputs(const inference::ModelConfig& message, const std::filesystem::path& folder,
                  Declarations& out, Findings& findings) {
  std::set<std::string> names;
  for (int i = 0; i < message.output_size(); ++i) {
    const inference::ModelOutput& output = message.output(i);
    const std::string path = at("output", i);
    auto tensor = read_tensor(output, path, out.declared.has_batch(), names, findings);
    if (!tensor) continue;
    if (const std::string& file = output.label_filename(); !file.empty()) {
      auto labels = stays_below(file) ? read_labels(folder / file) : std::nullopt;
      if (!labels) {
        findings.refuse(path + ".label_filename",
                        json_string(file) + " cannot be read: must be a file of at most " +
                            std::to_string(kMostLabelBytes) + " bytes in the model's folder");
        continue;
      }
      out.labels[tensor->name] = std::move(*labels);
    }
    out.declared.outputs.push_back(std::move(*tensor));
  }
}

/// The bytes of one sample of the tensor; nothing after a fault.
std::optional<std::uint64_t> sample_bytes(const config::WarmupInput& input, std::uint32_t batch,
                                          const std::string& path, Findings& findings) {
  const auto dtype = parse_dtype(input.datatype);
  const bool fixed = std::ranges::all_of(input.dims, [](std::int64_t dim) { return dim >= 0; });
  const auto count = fixed ? element_count(input.dims) : Result<std::uint64_t>(0);
  if (!fixed || !count) {
    findings.refuse(path, "dims " + shape_text(input.dims) + " must be of one size");
    return std::nullopt;
  }
  const std::uint64_t size = *count * std::max<std::size_t>(1, element_size(*dtype));
  if (*count > kMostWarmupBytes || size > kMostWarmupBytes / batch) {
    findings.refuse(path, "takes over " + std::to_string(kMostWarmupBytes) + " bytes");
    return std::nullopt;
  }
  return size;
}

void read_warmup_input(const std::string& name, const inference::ModelWarmup::Input& message,
                       const std::filesystem::path& folder, const std::string& path,
                       config::WarmupSample& sample, Findings& findings) {
  using Data = config::WarmupInput::Data;
  config::WarmupInput input{.name = name,
                            .datatype = datatype_of(message.data_type()),
                            .dims = dims_of(message.dims()),
                            .file = {}};
  if (input.datatype.empty()) return findings.refuse(path, "data_type: missing");
  const auto size = sample_bytes(input, sample.batch_size, path, findings);
  if (!size) return;
  switch (message.input_data_type_case()) {
    case inference::ModelWarmup::Input::kZeroData:
      break;
    case inference::ModelWarmup::Input::kRandomData:
      input.data = Data::kRandom;
      break;
    case inference::ModelWarmup::Input::kInputDataFile: {
      const std::string& file = message.input_data_file();
      input.data = Data::kFile;
      input.file = folder / "warmup" / file;
      std::error_code error;
      const auto there = std::filesystem::file_size(input.file, error);
      if (error || !stays_below(file)) {
        return findings.refuse(path,
                               "input_data_file " + json_string(file) +
                                   " cannot be read: must lie in the model's folder `warmup`");
      }
      if (there > kMostWarmupBytes || (input.datatype != "BYTES" && there != *size)) {
        return findings.refuse(path, "input_data_file " + json_string(file) + " has " +
                                         std::to_string(there) + " bytes, " + input.datatype + " " +
                                         shape_text(input.dims) + " takes " +
                                         std::to_string(*size));
      }
      break;
    }
    case inference::ModelWarmup::Input::INPUT_DATA_TYPE_NOT_SET:
      return findings.refuse(path, "must have zero_data, random_data or input_data_file");
  }
  sample.inputs.push_back(std::move(input));
}

void read_warmup(const inference::ModelConfig& message, const std::filesystem::path& folder,
                 Declarations& out, Findings& findings) {
  for (int i = 0; i < message.model_warmup_size(); ++i) {
    const inference::ModelWarmup& warmup = message.model_warmup(i);
    const std::string path = at("model_warmup", i);
    const std::uint32_t most = std::max(1U, out.declared.max_batch_size.value_or(1));
    if (warmup.batch_size() < 1 || warmup.batch_size() > most) {
      findings.refuse(path + ".batch_size", std::to_string(warmup.batch_size()) +
                                                ": must be in [1, " + std::to_string(most) + "]");
      continue;
    }
    if (warmup.count() > kMostWarmupRuns) {
      findings.refuse(path + ".count", std::to_string(warmup.count()) + ": must be at most " +
                                           std::to_string(kMostWarmupRuns));
      continue;
    }
    config::WarmupSample sample{.name = warmup.name(),
                                .batch_size = warmup.batch_size(),
                                .runs = std::max(1U, warmup.count()),
                                .inputs = {}};
    for (const std::string& name : sorted_keys(warmup.inputs())) {
      read_warmup_input(name, warmup.inputs().at(name), folder, path + ".inputs." + name, sample,
                        findings);
    }
    out.warmup.push_back(std::move(sample));
  }
}

bool says_dims(const inference::ModelConfig& message) {
  const auto has_dims = [](const auto& tensor) { return tensor.dims_size() > 0; };
  return std::ranges::any_of(message.input(), has_dims) ||
         std::ranges::any_of(message.output(), has_dims);
}

}  // namespace

bool stays_below(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && name.find('\0') == std::string::npos && path.is_relative() &&
         std::ranges::find(path, "..") == path.end();
}

Declarations read_tensors(const inference::ModelConfig& message,
                          const std::filesystem::path& folder, Findings& findings) {
  Declarations out;
  if (message.max_batch_size() < 0) {
    findings.refuse("max_batch_size",
                    std::to_string(message.max_batch_size()) + ": must be at least 0");
  } else if (message.has_max_batch_size() || says_dims(message)) {
    out.declared.max_batch_size = static_cast<std::uint32_t>(message.max_batch_size());
  }
  read_inputs(message, out.declared, findings);
  read_outputs(message, folder, out, findings);
  for (int i = 0; i < message.batch_input_size(); ++i) {
    findings.refuse(at("batch_input", i), "inputs that the server makes up are not supported");
  }
  for (int i = 0; i < message.batch_output_size(); ++i) {
    findings.refuse(at("batch_output", i), "outputs that the server cuts up are not supported");
  }
  read_warmup(message, folder, out, findings);
  return out;
}

}  // namespace gradus::triton
