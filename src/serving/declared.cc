#include "serving/declared.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gradus::serving {
namespace {

/// With the batch's dimension, where there is one.
Shape whole(const config::Declared& declared, const Shape& dims) {
  Shape shape;
  if (declared.has_batch()) shape.push_back(-1);
  shape.insert(shape.end(), dims.begin(), dims.end());
  return shape;
}

bool fits(const Shape& shape, const Shape& pattern) {
  return shape.size() == pattern.size() &&
         std::equal(shape.begin(), shape.end(), pattern.begin(),
                    [](std::int64_t got, std::int64_t want) { return want < 0 || got == want; });
}

/// `shape` fits `from`; its variable dimensions are those of `to`, in order.
Shape mapped(const Shape& shape, const Shape& from, Shape to) {
  std::size_t next = 0;
  for (std::int64_t& dim : to) {
    if (dim >= 0) continue;
    while (from[next] >= 0) ++next;
    dim = shape[next++];
  }
  return to;
}

std::string names_of(const std::vector<runtime::TensorSpec>& specs) {
  std::string text;
  for (const runtime::TensorSpec& spec : specs) {
    text += (text.empty() ? "'" : ", '") + spec.name + "'";
  }
  return text;
}

std::string no_batch(const config::Declared& declared, const char* kind,
                     const std::vector<runtime::TensorSpec>& specs) {
  if (!declared.has_batch()) return "";
  for (const runtime::TensorSpec& spec : specs) {
    if (!spec.shape.empty() && spec.shape[0] < 0) continue;
    return "max_batch_size is " + std::to_string(*declared.max_batch_size) + ", but the model's " +
           kind + " '" + spec.name + "' has shape " + shape_text(spec.shape) +
           ", whose first dimension is no batch; set max_batch_size to 0 and give whole shapes";
  }
  return "";
}

/// Why an input may not be declared optional, or must be; "": none is wrong.
std::string wrongly_optional(const config::Declared& declared,
                             const runtime::Signature& signature) {
  const auto has = [](const std::vector<runtime::TensorSpec>& specs, const std::string& name) {
    return std::ranges::find(specs, name, &runtime::TensorSpec::name) != specs.end();
  };
  for (const config::DeclaredTensor& tensor : declared.inputs) {
    const std::string who = "input '" + tensor.name + "' is ";
    const bool is_initializer = has(signature.optional_inputs, tensor.name);
    if (!tensor.optional && is_initializer) {
      return who + "an initializer of the model, so that requests may leave it out: it must be " +
             "declared with optional: true";
    }
    if (!tensor.optional || is_initializer) continue;
    if (has(signature.inputs, tensor.name)) {
      return who + "declared optional, but the model has no value for it: requests must send it";
    }
    return who + "declared optional, but the model's inputs are " + names_of(signature.inputs) +
           ", and no initializer of that name may be overridden (it must be listed among the "
           "graph's inputs, in a file of ONNX IR version 4 or later)";
  }
  return "";
}

std::string contradicted(const config::Declared& declared, const char* kind,
                         const std::vector<config::DeclaredTensor>& tensors,
                         const std::vector<runtime::TensorSpec>& specs) {
  for (const config::DeclaredTensor& tensor : tensors) {
    const std::string who = std::string(kind) + " '" + tensor.name + "' ";
    const auto spec = std::ranges::find(specs, tensor.name, &runtime::TensorSpec::name);
    if (spec == specs.end()) {
      return who + "is declared, but the model's " + kind + "s are " + names_of(specs);
    }
    if (!tensor.datatype.empty() && tensor.datatype != dtype_name(spec->dtype)) {
      return who + "is declared " + tensor.datatype + ", the model has " +
             std::string(dtype_name(spec->dtype));
    }
    if (!tensor.dims) continue;
    const Shape shape = whole(declared, tensor.reshape.value_or(*tensor.dims));
    if (!fits(shape, spec->shape)) {
      return who + "is declared with shape " + shape_text(shape) +
             (tensor.reshape ? " by its reshape" : "") +
             (declared.has_batch() ? ", the batch included" : "") + "; the model has " +
             shape_text(spec->shape);
    }
  }
  return "";
}

void show(const config::Declared& declared, const std::vector<config::DeclaredTensor>& tensors,
          std::vector<runtime::TensorSpec>& specs) {
  for (const config::DeclaredTensor& tensor : tensors) {
    const auto spec = std::ranges::find(specs, tensor.name, &runtime::TensorSpec::name);
    if (spec != specs.end() && tensor.dims) spec->shape = whole(declared, *tensor.dims);
  }
}

}  // namespace

std::string contradiction(const config::Declared& declared, const runtime::Signature& signature) {
  const std::vector<runtime::TensorSpec> inputs = signature.all_inputs();
  std::string why = wrongly_optional(declared, signature);
  if (why.empty()) why = no_batch(declared, "input", inputs);
  if (why.empty()) why = no_batch(declared, "output", signature.outputs);
  if (why.empty()) why = contradicted(declared, "input", declared.inputs, inputs);
  if (why.empty()) why = contradicted(declared, "output", declared.outputs, signature.outputs);
  return why;
}

runtime::Signature shown_signature(const config::Declared& declared,
                                   const runtime::Signature& signature) {
  runtime::Signature shown = signature;
  show(declared, declared.inputs, shown.inputs);
  show(declared, declared.inputs, shown.optional_inputs);
  show(declared, declared.outputs, shown.outputs);
  return shown;
}

bool is_batched(const config::Declared& declared, const runtime::Signature& shown) {
  if (declared.max_batch_size) return declared.has_batch();
  const auto has_batch = [](const runtime::TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape[0] < 0;
  };
  return !shown.inputs.empty() && std::ranges::all_of(shown.all_inputs(), has_batch) &&
         std::ranges::all_of(shown.outputs, has_batch);
}

const config::DeclaredTensor* find_declared(const std::vector<config::DeclaredTensor>& tensors,
                                            const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &config::DeclaredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Shape model_shape(const config::Declared& declared, const config::DeclaredTensor& tensor,
                  const Shape& shape) {
  if (!tensor.reshape) return shape;
  return mapped(shape, whole(declared, *tensor.dims), whole(declared, *tensor.reshape));
}

Shape client_shape(const config::Declared& declared, const config::DeclaredTensor& tensor,
                   const Shape& shape) {
  if (!tensor.reshape) return shape;
  const Shape from = whole(declared, *tensor.reshape);
  return fits(shape, from) ? mapped(shape, from, whole(declared, *tensor.dims)) : shape;
}

}  // namespace gradus::serving
