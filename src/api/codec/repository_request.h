// What clients send to the model repository, as JSON: Triton's extension_model_repository.md.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serving/manage.h"

namespace gradus::api {

/// @param body empty, or `{"ready": true}`
/// @return whether only those are wanted that are ready; kInvalid names what is wrong
Result<bool> decode_index_request(std::span<const std::byte> body);

/// @param body empty, or `{"parameters": {"config": "<JSON>", "file:1/model.onnx": "<base64>"}}`
/// @param readable_after bytes past it that may be read
/// @return kInvalid names what is wrong, an unknown parameter too; kUnavailable: no memory for it
Result<serving::LoadModel> decode_load_request(std::string model, std::span<const std::byte> body,
                                               std::size_t readable_after);

/// @param body empty, or `{"parameters": {"unload_dependents": false}}`, which says nothing here:
///   no model depends on another
/// @return kInvalid names what is wrong
Result<void> decode_unload_request(std::span<const std::byte> body);

/// kInvalid when a repository is named: models are found by their own names, whichever folder they
/// lie in.
Result<void> check_repository(std::string_view name);

/// The path of a load's parameter `file:PATH`; "": it is none.
std::string_view file_parameter(std::string_view parameter);

/// For a load's parameter that is neither `config` nor a file …
tl::unexpected<Error> unknown_load_parameter(std::string_view name);
/// … and an unload's that is not `unload_dependents`.
tl::unexpected<Error> unknown_unload_parameter(std::string_view name);

}  // namespace gradus::api
