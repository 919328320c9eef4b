// The small JSON bodies of the protocol: health, metadata, errors (inference_rest.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "serving/engine.h"

namespace gradus::api {

/// `{"live":true}`. KServe's SDK reads the body, Triton's clients the status only.
std::string live_json(bool live);
/// `{"ready":true}`.
std::string ready_json(bool ready);
/// `{"name":"fashion","ready":true}`.
std::string model_ready_json(std::string_view model, bool ready);
/// `{"error":"…"}`; bytes of the text that are not UTF-8 become U+FFFD.
std::string error_json(std::string_view message);

/// Triton's extensions that work, over HTTP and gRPC alike.
/// @param shared_memory clients may register some
std::vector<std::string_view> extensions(bool shared_memory);

/// Every model's, as Triton calls it.
inline constexpr std::string_view kPlatform = "onnxruntime_onnx";

/// Name, version and the extensions that work.
std::string server_metadata_json(std::string_view version, bool shared_memory = false);
/// `{"models":["fashion"]}`, as KServe's server lists them.
std::string model_names_json(const std::vector<std::string>& names);
/// Name, versions, platform `onnxruntime_onnx`, inputs and outputs; -1 is a variable dimension.
std::string model_metadata_json(const serving::ModelInfo& model);
/// `[{"name":"fashion","version":"1","state":"READY","reason":""}]`; no `version` where there is
/// none.
std::string index_json(const std::vector<serving::IndexEntry>& entries);

}  // namespace gradus::api
