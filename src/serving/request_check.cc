#include "serving/request_check.h"

#include <algorithm>
#include <string>

#include "serving/declared.h"

namespace gradus::serving {
namespace {

template <class Named>
std::string names_of(const std::vector<Named>& list) {
  std::string text;
  for (const Named& item : list) {
    if (!text.empty()) text += ", ";
    text += "'" + item.name + "'";
  }
  return text;
}

bool fits(const Shape& shape, const Shape& pattern) {
  return shape.size() == pattern.size() &&
         std::equal(shape.begin(), shape.end(), pattern.begin(),
                    [](std::int64_t got, std::int64_t want) { return want < 0 || got == want; });
}

/// @param spec as clients see it
Result<void> check_input(const NamedView& input, const runtime::TensorSpec& spec) {
  const std::string who = "input '" + input.name + "' ";
  if (input.tensor.dtype != spec.dtype) {
    return fail(Code::kInvalid, who + "has datatype " +
                                    std::string(dtype_name(input.tensor.dtype)) + ", expected " +
                                    std::string(dtype_name(spec.dtype)));
  }
  const Shape& shape = input.tensor.shape;
  if (!fits(shape, spec.shape)) {
    return fail(Code::kInvalid,
                who + "has shape " + shape_text(shape) + ", expected " + shape_text(spec.shape));
  }
  if (const auto size = check_byte_size(input.tensor); !size) {
    return fail(Code::kInvalid, who + size.error().message);
  }
  return {};
}

/// The batch of the first input, which all must have, and its bound.
Result<void> check_batch(const runtime::Signature& signature, const BoundRequest& bound,
                         const config::Declared& declared) {
  const std::vector<TensorView>& inputs = bound.inputs;
  if (!declared.has_batch() || inputs.empty()) return {};
  const auto who = [&](std::size_t i) {
    return "input '" + bound.run_inputs().spec(signature, i).name + "' ";
  };
  const auto no_dimensions = [](const TensorView& input) { return input.shape.empty(); };
  if (std::ranges::any_of(inputs, no_dimensions)) return {};  // no such level is served
  const std::int64_t batch = inputs[0].shape[0];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t own = inputs[i].shape[0];
    if (own != batch) {
      return fail(Code::kInvalid, who(i) + "has a batch of " + std::to_string(own) + ", " + who(0) +
                                      "one of " + std::to_string(batch));
    }
  }
  if (batch <= static_cast<std::int64_t>(*declared.max_batch_size)) return {};
  return fail(Code::kInvalid, who(0) + "has a batch of " + std::to_string(batch) +
                                  ", max_batch_size is " +
                                  std::to_string(*declared.max_batch_size));
}

/// @param spec the model's own
Result<TensorView> bind_input(const NamedView& input, const runtime::TensorSpec& spec,
                              const config::Declared& declared) {
  const config::DeclaredTensor* said = find_declared(declared.inputs, spec.name);
  if (said == nullptr || !said->dims) {
    if (const auto ok = check_input(input, spec); !ok) return tl::unexpected(ok.error());
    return input.tensor;
  }
  runtime::TensorSpec shown = spec;
  shown.shape = *said->dims;
  if (declared.has_batch()) shown.shape.insert(shown.shape.begin(), -1);
  if (const auto ok = check_input(input, shown); !ok) return tl::unexpected(ok.error());
  TensorView view = input.tensor;
  view.shape = model_shape(declared, *said, view.shape);
  return view;
}

}  // namespace

Result<BoundRequest> bind_request(const Request& request, const runtime::Signature& signature,
                                  const config::Declared& declared) {
  for (const NamedView& input : request.inputs) {
    const auto is_it = [&](const runtime::TensorSpec& spec) { return spec.name == input.name; };
    if (!std::ranges::any_of(signature.inputs, is_it) &&
        !std::ranges::any_of(signature.optional_inputs, is_it)) {
      return fail(Code::kInvalid, "unknown input '" + input.name + "'; the model's inputs are " +
                                      names_of(signature.all_inputs()));
    }
  }
  BoundRequest bound;
  bound.inputs.reserve(request.inputs.size());
  const auto take = [&](const runtime::TensorSpec& spec) -> Result<bool> {
    const NamedView* found = nullptr;
    for (const NamedView& input : request.inputs) {
      if (input.name != spec.name) continue;
      if (found != nullptr) return fail(Code::kInvalid, "input '" + spec.name + "' is there twice");
      found = &input;
    }
    if (found == nullptr) return false;
    auto view = bind_input(*found, spec, declared);
    if (!view) return tl::unexpected(view.error());
    bound.inputs.push_back(std::move(*view));
    return true;
  };
  for (const runtime::TensorSpec& spec : signature.inputs) {
    const auto taken = take(spec);
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) {
      return fail(Code::kInvalid, "input '" + spec.name + "' is missing; the model's inputs are " +
                                      names_of(signature.all_inputs()));
    }
  }
  for (std::size_t i = 0; i < signature.optional_inputs.size(); ++i) {
    const auto taken = take(signature.optional_inputs[i]);
    if (!taken) return tl::unexpected(taken.error());
    if (*taken) bound.optional.push_back(i);
  }
  if (const auto ok = check_batch(signature, bound, declared); !ok) {
    return tl::unexpected(ok.error());
  }

  if (request.outputs.empty()) {
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) bound.outputs.push_back(i);
    return bound;
  }
  for (const std::string& name : request.outputs) {
    const auto spec = std::ranges::find(signature.outputs, name, &runtime::TensorSpec::name);
    if (spec == signature.outputs.end()) {
      return fail(Code::kInvalid, "unknown output '" + name + "'; the model's outputs are " +
                                      names_of(signature.outputs));
    }
    const auto index = static_cast<std::size_t>(spec - signature.outputs.begin());
    if (std::ranges::find(bound.outputs, index) != bound.outputs.end()) {
      return fail(Code::kInvalid, "output '" + name + "' is requested twice");
    }
    bound.outputs.push_back(index);
  }
  return bound;
}

}  // namespace gradus::serving
