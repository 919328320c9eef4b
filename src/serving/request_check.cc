#include "serving/request_check.h"

#include <algorithm>
#include <string>

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

Result<void> check_input(const NamedView& input, const runtime::TensorSpec& spec) {
  const std::string who = "input '" + input.name + "' ";
  if (input.tensor.dtype != spec.dtype) {
    return fail(Code::kInvalid, who + "has datatype " +
                                    std::string(dtype_name(input.tensor.dtype)) + ", expected " +
                                    std::string(dtype_name(spec.dtype)));
  }
  const Shape& shape = input.tensor.shape;
  const bool fits =
      shape.size() == spec.shape.size() &&
      std::equal(shape.begin(), shape.end(), spec.shape.begin(),
                 [](std::int64_t got, std::int64_t want) { return want < 0 || got == want; });
  if (!fits) {
    return fail(Code::kInvalid,
                who + "has shape " + shape_text(shape) + ", expected " + shape_text(spec.shape));
  }
  if (const auto size = check_byte_size(input.tensor); !size) {
    return fail(Code::kInvalid, who + size.error().message);
  }
  return {};
}

}  // namespace

Result<BoundRequest> bind_request(const Request& request, const runtime::Signature& signature) {
  for (const NamedView& input : request.inputs) {
    const bool known = std::ranges::any_of(
        signature.inputs, [&](const runtime::TensorSpec& spec) { return spec.name == input.name; });
    if (!known) {
      return fail(Code::kInvalid, "unknown input '" + input.name + "'; the model's inputs are " +
                                      names_of(signature.inputs));
    }
  }
  BoundRequest bound;
  bound.inputs.reserve(signature.inputs.size());
  for (const runtime::TensorSpec& spec : signature.inputs) {
    const NamedView* found = nullptr;
    for (const NamedView& input : request.inputs) {
      if (input.name != spec.name) continue;
      if (found != nullptr) return fail(Code::kInvalid, "input '" + spec.name + "' is there twice");
      found = &input;
    }
    if (found == nullptr) {
      return fail(Code::kInvalid, "input '" + spec.name + "' is missing; the model's inputs are " +
                                      names_of(signature.inputs));
    }
    if (const auto ok = check_input(*found, spec); !ok) return tl::unexpected(ok.error());
    bound.inputs.push_back(found->tensor);
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
