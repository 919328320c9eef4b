#include "api/grpc/control_calls.h"

#include <grpc_service.pb.h>

#include <array>
#include <limits>
#include <utility>

#include "api/codec/metadata.h"
#include "api/grpc/status.h"

namespace gradus::api {
namespace {

using serving::Engine;

constexpr int kAlreadyExists = 6;
constexpr int kPermissionDenied = 7;
constexpr int kUnimplemented = 12;
constexpr int kUnauthenticated = 16;

struct Asked {
  Control& control;
  const Engine& engine;
  std::string_view version;
  const Caller& caller;
};

ControlAnswer no(const Error& error) { return {grpc_status(error.code), status_text(error)}; }

ControlAnswer yes(const google::protobuf::Message& message) {
  return {0, message.SerializeAsString()};
}

// Parses the request, and hands on what `Answer` makes of it.
template <class Request, auto Answer>
ControlAnswer call(std::string_view bytes, Control& control, const Engine& engine,
                   std::string_view version, const Caller& caller) {
  Request request;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return no({Code::kInvalid, "the message is no " + Request::descriptor()->name()});
  }
  return Answer(request, Asked{control, engine, version, caller});
}

ControlAnswer server(const inference::ServerMetadataRequest&, const Asked& asked) {
  inference::ServerMetadataResponse response;
  response.set_name("gradus");
  response.set_version(std::string(asked.version));
  for (const std::string_view name : extensions(asked.control.shared_memory != nullptr)) {
    response.add_extensions(std::string(name));
  }
  return yes(response);
}

ControlAnswer region_status(const inference::SystemSharedMemoryStatusRequest& request,
                            const Asked& asked) {
  const SharedMemory* const memory = asked.control.shared_memory.get();
  std::vector<std::shared_ptr<const Region>> found;
  if (request.name().empty()) {
    if (memory != nullptr) found = memory->all();
  } else {
    auto region = memory != nullptr ? memory->find(request.name()) : nullptr;
    if (!region) return no({Code::kNotFound, no_region(request.name())});
    found.push_back(std::move(region));
  }
  inference::SystemSharedMemoryStatusResponse response;
  for (const auto& region : found) {
    auto& to = (*response.mutable_regions())[region->name];
    to.set_name(region->name);
    to.set_key(region->key);
    to.set_offset(region->offset);
    to.set_byte_size(region->byte_size);
  }
  return yes(response);
}

ControlAnswer register_region(const inference::SystemSharedMemoryRegisterRequest& request,
                              const Asked& asked) {
  SharedMemory* const memory = asked.control.shared_memory.get();
  if (memory == nullptr) return no({Code::kInvalid, std::string(kNoSharedMemory)});
  const auto added =
      memory->add({request.name(), request.key(), request.offset(), request.byte_size()});
  if (!added) return no(added.error());
  if (!*added) return {kAlreadyExists, name_taken(request.name())};
  return yes(inference::SystemSharedMemoryRegisterResponse());
}

ControlAnswer unregister_regions(const inference::SystemSharedMemoryUnregisterRequest& request,
                                 const Asked& asked) {
  if (SharedMemory* const memory = asked.control.shared_memory.get()) {
    if (request.name().empty()) {
      memory->remove_all();
    } else {
      memory->remove(request.name());
    }
  }
  return yes(inference::SystemSharedMemoryUnregisterResponse());
}

// Clients unregister what there never was before they begin.
ControlAnswer no_cuda_regions(const inference::CudaSharedMemoryStatusRequest&, const Asked&) {
  return yes(inference::CudaSharedMemoryStatusResponse());
}

ControlAnswer refuse_cuda(const inference::CudaSharedMemoryRegisterRequest&, const Asked&) {
  return {kUnimplemented, std::string(kNoCuda)};
}

ControlAnswer unregister_cuda(const inference::CudaSharedMemoryUnregisterRequest&, const Asked&) {
  return yes(inference::CudaSharedMemoryUnregisterResponse());
}

ControlAnswer barred(const Permission::Refused& refused) {
  return {refused.token_wanted ? kUnauthenticated : kPermissionDenied, std::string(refused.text)};
}

ControlAnswer log_settings(const inference::LogSettingsRequest& request, const Asked& asked) {
  LogSettings& log = asked.control.log;
  if (request.settings_size() > 0) {
    if (const auto refused = asked.control.permission.refusal(asked.caller)) {
      return barred(*refused);
    }
    LogSettings::Values wanted;
    for (const auto& [name, value] : request.settings()) {
      using Value = inference::LogSettingsRequest::SettingValue;
      if (value.parameter_choice_case() == Value::kBoolParam) {
        wanted[name] = value.bool_param();
      } else if (value.parameter_choice_case() == Value::kUint32Param) {
        wanted[name] = std::uint64_t{value.uint32_param()};
      } else {
        wanted[name] = value.string_param();
      }
    }
    log_change("the log", "", asked.caller.peer);
    if (auto changed = log.change(wanted); !changed) return no(changed.error());
  }
  inference::LogSettingsResponse response;
  for (const auto& [name, value] : log.all()) {
    auto& to = (*response.mutable_settings())[name];
    if (const auto* flag = std::get_if<bool>(&value)) {
      to.set_bool_param(*flag);
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      to.set_uint32_param(static_cast<std::uint32_t>(*number));
    } else {
      to.set_string_param(std::get<std::string>(value));
    }
  }
  return yes(response);
}

ControlAnswer trace_settings(const inference::TraceSettingRequest& request, const Asked& asked) {
  Tracer& tracer = *asked.control.tracer;
  const std::string& model = request.model_name();
  if (request.settings_size() > 0) {
    if (const auto refused = asked.control.permission.refusal(asked.caller)) {
      return barred(*refused);
    }
    log_change("traces", model, asked.caller.peer);
  }
  if (auto known = check_model(asked.engine, model); !known) return no(known.error());
  TraceValues values;
  for (const auto& [name, value] : request.settings()) {
    auto& texts = values[name];
    if (value.value_size() > 0) texts.emplace(value.value().begin(), value.value().end());
  }
  if (auto changed = tracer.change(model, values); !changed) return no(changed.error());
  inference::TraceSettingResponse response;
  for (const auto& [name, texts] : tracer.settings(model)) {
    auto& to = (*response.mutable_settings())[name];
    for (const std::string& text : texts) to.add_value(text);
  }
  return yes(response);
}

constexpr std::array<ControlCall, 9> kControlCalls{{
    {"ServerMetadata", call<inference::ServerMetadataRequest, server>},
    {"SystemSharedMemoryStatus", call<inference::SystemSharedMemoryStatusRequest, region_status>},
    {"SystemSharedMemoryRegister",
     call<inference::SystemSharedMemoryRegisterRequest, register_region>},
    {"SystemSharedMemoryUnregister",
     call<inference::SystemSharedMemoryUnregisterRequest, unregister_regions>},
    {"CudaSharedMemoryStatus", call<inference::CudaSharedMemoryStatusRequest, no_cuda_regions>},
    {"CudaSharedMemoryRegister", call<inference::CudaSharedMemoryRegisterRequest, refuse_cuda>},
    {"CudaSharedMemoryUnregister",
     call<inference::CudaSharedMemoryUnregisterRequest, unregister_cuda>},
    {"LogSettings", call<inference::LogSettingsRequest, log_settings>},
    {"TraceSetting", call<inference::TraceSettingRequest, trace_settings>},
}};

}  // namespace

std::span<const ControlCall> control_calls() { return kControlCalls; }

std::string address_of_peer(std::string_view peer) {
  if (!peer.starts_with("ipv4:") && !peer.starts_with("ipv6:")) return "";
  peer.remove_prefix(5);
  peer = peer.substr(0, peer.rfind(':'));
  for (const std::string_view bracket : {"%5B", "["}) {
    if (peer.starts_with(bracket)) peer.remove_prefix(bracket.size());
  }
  for (const std::string_view bracket : {"%5D", "]"}) {
    if (peer.ends_with(bracket)) peer.remove_suffix(bracket.size());
  }
  return std::string(peer);
}

}  // namespace gradus::api
