#include "api/grpc/small_calls.h"

#include <google/protobuf/util/json_util.h>
#include <grpc_service.pb.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "api/codec/metadata.h"
#include "api/codec/repository_request.h"

namespace gradus::api {
namespace {

using serving::Engine;

template <class Request>
Result<Request> parse(std::string_view bytes) {
  Request request;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(Code::kInvalid, "the message is no " + Request::descriptor()->name());
  }
  return request;
}

// Parses the request, and serialises what `Answer` makes of it.
template <class Request, auto Answer>
Result<std::string> call(std::string_view bytes, const Engine& engine) {
  const auto request = parse<Request>(bytes);
  if (!request) return tl::unexpected(request.error());
  auto response = Answer(*request, engine);
  if (!response) return tl::unexpected(std::move(response.error()));
  return response->SerializeAsString();
}

Result<inference::ServerLiveResponse> live(const inference::ServerLiveRequest&,
                                           const Engine& engine) {
  inference::ServerLiveResponse response;
  response.set_live(engine.live());
  return response;
}

Result<inference::ServerReadyResponse> ready(const inference::ServerReadyRequest&,
                                             const Engine& engine) {
  inference::ServerReadyResponse response;
  response.set_ready(engine.ready());
  return response;
}

// As Triton: a model that is not there is not ready, which is no error.
Result<inference::ModelReadyResponse> model_ready(const inference::ModelReadyRequest& request,
                                                  const Engine& engine) {
  inference::ModelReadyResponse response;
  response.set_ready(engine.model_ready(request.name(), request.version()).has_value());
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
                                               const Engine& engine) {
  const auto info = engine.model_info(request.name(), request.version());
  if (!info) return tl::unexpected(info.error());
  inference::ModelMetadataResponse response;
  response.set_name(info->name);
  for (const std::string& version : info->versions) response.add_versions(version);
  response.set_platform(std::string(kPlatform));
  fill(info->signature.all_inputs(), *response.mutable_inputs());
  fill(info->signature.outputs, *response.mutable_outputs());
  return response;
}

Result<inference::RepositoryIndexResponse> index(const inference::RepositoryIndexRequest& request,
                                                 const Engine& engine) {
  if (auto here = check_repository(request.repository_name()); !here) {
    return tl::unexpected(std::move(here.error()));
  }
  inference::RepositoryIndexResponse response;
  for (const serving::IndexEntry& model : engine.index()) {
    if (request.ready() && model.state != serving::VersionState::kReady) continue;
    auto& entry = *response.add_models();
    entry.set_name(model.name);
    entry.set_version(model.version);
    entry.set_state(std::string(to_string(model.state)));
    entry.set_reason(model.reason);
  }
  return response;
}

Result<inference::ModelConfigResponse> config(const inference::ModelConfigRequest& request,
                                              const Engine& engine) {
  const auto json = engine.config_json(request.name(), request.version());
  if (!json) return tl::unexpected(json.error());
  inference::ModelConfigResponse response;
  const auto read = google::protobuf::util::JsonStringToMessage(*json, response.mutable_config());
  if (!read.ok()) return fail(Code::kInternal, "the configuration: " + read.ToString());
  return response;
}

void fill(const serving::DurationSum& sum, inference::StatisticDuration* duration) {
  duration->set_count(sum.count);
  duration->set_ns(sum.ns);
}

void fill(const serving::ModelStatistics& model, inference::ModelStatistics& message) {
  message.set_name(model.name);
  message.set_version(model.version);
  message.set_last_inference(model.last_inference_ms);
  message.set_inference_count(model.inference_count);
  message.set_execution_count(model.execution_count);
  auto& sums = *message.mutable_inference_stats();
  fill(model.success, sums.mutable_success());
  fill(model.fail, sums.mutable_fail());
  fill(model.queue, sums.mutable_queue());
  fill(model.compute_input, sums.mutable_compute_input());
  fill(model.compute_infer, sums.mutable_compute_infer());
  fill(model.compute_output, sums.mutable_compute_output());
  fill({}, sums.mutable_cache_hit());  // nothing is cached
  fill({}, sums.mutable_cache_miss());
  for (const serving::BatchStatistics& batch : model.batches) {
    auto& of_size = *message.add_batch_stats();
    of_size.set_batch_size(batch.batch_size);
    fill(batch.compute_input, of_size.mutable_compute_input());
    fill(batch.compute_infer, of_size.mutable_compute_infer());
    fill(batch.compute_output, of_size.mutable_compute_output());
  }
}

Result<inference::ModelStatisticsResponse> statistics(
    const inference::ModelStatisticsRequest& request, const Engine& engine) {
  const auto models = engine.statistics(request.name(), request.version());
  if (!models) return tl::unexpected(models.error());
  inference::ModelStatisticsResponse response;
  for (const serving::ModelStatistics& model : *models) fill(model, *response.add_model_stats());
  return response;
}

using Parameter = inference::ModelRepositoryParameter;

tl::unexpected<Error> wrong_kind(std::string_view name, const char* wanted) {
  return fail(Code::kInvalid, "parameter '" + std::string(name) + "': expected " + wanted);
}

// Takes the files out of the request.
Result<serving::LoadModel> load_of(inference::RepositoryModelLoadRequest& request) {
  if (auto here = check_repository(request.repository_name()); !here) {
    return tl::unexpected(std::move(here.error()));
  }
  serving::LoadModel load;
  load.name = request.model_name();
  for (auto& [name, parameter] : *request.mutable_parameters()) {
    const std::string_view path = file_parameter(name);
    if (name == "config") {
      if (!parameter.has_string_param()) return wrong_kind(name, "string_param");
      load.config = std::move(*parameter.mutable_string_param());
    } else if (!path.empty()) {
      if (!parameter.has_bytes_param()) return wrong_kind(name, "bytes_param");
      load.files.emplace(path, std::move(*parameter.mutable_bytes_param()));
    } else {
      return unknown_load_parameter(name);
    }
  }
  return load;
}

Result<std::string> unloaded_of(const inference::RepositoryModelUnloadRequest& request) {
  if (auto here = check_repository(request.repository_name()); !here) {
    return tl::unexpected(std::move(here.error()));
  }
  for (const auto& [name, parameter] : request.parameters()) {
    if (name != "unload_dependents") return unknown_unload_parameter(name);
    if (!parameter.has_bool_param()) return wrong_kind(name, "bool_param");
  }
  return request.model_name();
}

using SlowDone = std::function<void(Result<std::string>)>;

template <class Response>
serving::Managed answer_of(SlowDone done) {
  return [done = std::move(done)](Result<void> ended) {
    ended ? done(Response().SerializeAsString()) : done(tl::unexpected(std::move(ended.error())));
  };
}

void start_load(std::string_view bytes, Engine& engine, SlowDone done) {
  auto request = parse<inference::RepositoryModelLoadRequest>(bytes);
  if (!request) return done(tl::unexpected(std::move(request.error())));
  auto load = load_of(*request);
  if (!load) return done(tl::unexpected(std::move(load.error())));
  engine.load(std::move(*load), answer_of<inference::RepositoryModelLoadResponse>(std::move(done)));
}

void start_unload(std::string_view bytes, Engine& engine, SlowDone done) {
  const auto request = parse<inference::RepositoryModelUnloadRequest>(bytes);
  if (!request) return done(tl::unexpected(request.error()));
  const auto model = unloaded_of(*request);
  if (!model) return done(tl::unexpected(model.error()));
  engine.unload(*model, answer_of<inference::RepositoryModelUnloadResponse>(std::move(done)));
}

constexpr std::array<SmallCall, 7> kSmallCalls{{
    {"ServerLive", call<inference::ServerLiveRequest, live>},
    {"ServerReady", call<inference::ServerReadyRequest, ready>},
    {"ModelReady", call<inference::ModelReadyRequest, model_ready>},
    {"ModelMetadata", call<inference::ModelMetadataRequest, model>},
    {"ModelConfig", call<inference::ModelConfigRequest, config>},
    {"ModelStatistics", call<inference::ModelStatisticsRequest, statistics>},
    {"RepositoryIndex", call<inference::RepositoryIndexRequest, index>},
}};

constexpr std::array<SlowCall, 2> kSlowCalls{{
    {"RepositoryModelLoad", start_load},
    {"RepositoryModelUnload", start_unload},
}};

}  // namespace

std::span<const SmallCall> small_calls() { return kSmallCalls; }

std::span<const SlowCall> slow_calls() { return kSlowCalls; }

}  // namespace gradus::api
