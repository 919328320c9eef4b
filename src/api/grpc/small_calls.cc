#include "api/grpc/small_calls.h"

#include <grpc_service.pb.h>

#include <array>
#include <limits>
#include <vector>

#include "api/codec/metadata.h"

namespace gradus::api {
namespace {

using serving::Engine;

// Parses the request, and serialises what `Answer` makes of it.
template <class Request, auto Answer>
Result<std::string> call(std::string_view bytes, const Engine& engine, std::string_view version) {
  Request request;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(Code::kInvalid, "the message is no " + Request::descriptor()->name());
  }
  auto response = Answer(request, engine, version);
  if (!response) return tl::unexpected(std::move(response.error()));
  return response->SerializeAsString();
}

Result<inference::ServerLiveResponse> live(const inference::ServerLiveRequest&,
                                           const Engine& engine, std::string_view) {
  inference::ServerLiveResponse response;
  response.set_live(engine.live());
  return response;
}

Result<inference::ServerReadyResponse> ready(const inference::ServerReadyRequest&,
                                             const Engine& engine, std::string_view) {
  inference::ServerReadyResponse response;
  response.set_ready(engine.ready());
  return response;
}

// As Triton: a model that is not there is not ready, which is no error.
Result<inference::ModelReadyResponse> model_ready(const inference::ModelReadyRequest& request,
                                                  const Engine& engine, std::string_view) {
  inference::ModelReadyResponse response;
  response.set_ready(engine.model_ready(request.name(), request.version()).has_value());
  return response;
}

Result<inference::ServerMetadataResponse> server(const inference::ServerMetadataRequest&,
                                                 const Engine&, std::string_view version) {
  inference::ServerMetadataResponse response;
  response.set_name("gradus");
  response.set_version(std::string(version));
  for (const std::string_view name : kExtensions) response.add_extensions(std::string(name));
  return response;
}

void fill(const std::vector<runtime::TensorSpec>& specs, auto& tensors) {
  for (const runtime::TensorSpec& spec : specs) {
    auto& tensor = *tensors.Add();
    tensor.set_name(spec.name);
    tensor.set_datatype(std::string(dtype_name(spec.dtype)));
    tensor.mutable_shape()->Add(spec.shape.begin(), spec.shape.end());
  }
}

Result<inference::ModelMetadataResponse> model(const inference::ModelMetadataRequest& request,
                                               const Engine& engine, std::string_view) {
  const auto info = engine.model_info(request.name(), request.version());
  if (!info) return tl::unexpected(info.error());
  inference::ModelMetadataResponse response;
  response.set_name(info->name);
  for (const std::string& version : info->versions) response.add_versions(version);
  response.set_platform(std::string(kPlatform));
  fill(info->signature.inputs, *response.mutable_inputs());
  fill(info->signature.outputs, *response.mutable_outputs());
  return response;
}

Result<inference::RepositoryIndexResponse> index(const inference::RepositoryIndexRequest& request,
                                                 const Engine& engine, std::string_view) {
  inference::RepositoryIndexResponse response;
  for (const std::string& name : engine.model_names()) {
    const auto is_ready = engine.model_ready(name, "");
    if (request.ready() && !is_ready) continue;
    auto& entry = *response.add_models();
    entry.set_name(name);
    if (const auto info = engine.model_info(name, "")) entry.set_version(info->version);
    entry.set_state(is_ready ? "READY" : "UNAVAILABLE");
    if (!is_ready) entry.set_reason(is_ready.error().message);
  }
  return response;
}

constexpr std::array<SmallCall, 6> kSmallCalls{{
    {"ServerLive", call<inference::ServerLiveRequest, live>},
    {"ServerReady", call<inference::ServerReadyRequest, ready>},
    {"ModelReady", call<inference::ModelReadyRequest, model_ready>},
    {"ServerMetadata", call<inference::ServerMetadataRequest, server>},
    {"ModelMetadata", call<inference::ModelMetadataRequest, model>},
    {"RepositoryIndex", call<inference::RepositoryIndexRequest, index>},
}};

constexpr const char* kNoLoading =
    "models are not loaded or unloaded over the protocol; change the model repository and restart "
    "the server";
constexpr const char* kNoMemory =
    "shared memory is not supported; send tensors in raw_input_contents and take them from "
    "raw_output_contents";

constexpr std::array<UnansweredCall, 12> kUnansweredCalls{{
    {"ModelConfig",
     "model configurations are not answered; call ModelMetadata for inputs and outputs, or GET "
     "/v2/models/NAME/ladder over HTTP for the levels"},
    {"ModelStatistics", "statistics are not answered here; read GET /metrics on the metrics port"},
    {"RepositoryModelLoad", kNoLoading},
    {"RepositoryModelUnload", kNoLoading},
    {"SystemSharedMemoryStatus", kNoMemory},
    {"SystemSharedMemoryRegister", kNoMemory},
    {"SystemSharedMemoryUnregister", kNoMemory},
    {"CudaSharedMemoryStatus", kNoMemory},
    {"CudaSharedMemoryRegister", kNoMemory},
    {"CudaSharedMemoryUnregister", kNoMemory},
    {"TraceSetting",
     "tracing is not supported; each answer's parameters queue_us, run_us and latency_ms say where "
     "its time went"},
    {"LogSettings",
     "the log is not set over the protocol; start the server with --log-level and --log-format"},
}};

}  // namespace

std::span<const SmallCall> small_calls() { return kSmallCalls; }

std::span<const UnansweredCall> unanswered_calls() { return kUnansweredCalls; }

}  // namespace gradus::api
