#include "api/codec/metadata.h"

#include "base/json_text.h"

namespace gradus::api {
namespace {

std::string flag(std::string_view key, bool value) {
  return "{" + json_string(key) + (value ? ":true}" : ":false}");
}

std::string list(const auto& texts) {
  std::string out = "[";
  for (const auto& text : texts) {
    if (out.size() > 1) out += ',';
    out += json_string(text);
  }
  return out + ']';
}

std::string specs(const std::vector<runtime::TensorSpec>& tensors) {
  std::string out = "[";
  for (const runtime::TensorSpec& tensor : tensors) {
    if (out.size() > 1) out += ',';
    out += "{\"name\":" + json_string(tensor.name) +
           ",\"datatype\":" + json_string(dtype_name(tensor.dtype)) +
           ",\"shape\":" + shape_text(tensor.shape) + '}';
  }
  return out + ']';
}

}  // namespace

std::string live_json(bool live) { return flag("live", live); }

std::string ready_json(bool ready) { return flag("ready", ready); }

std::string model_ready_json(std::string_view model, bool ready) {
  return "{\"name\":" + json_string(model) + (ready ? ",\"ready\":true}" : ",\"ready\":false}");
}

std::string error_json(std::string_view message) {
  return "{\"error\":" + json_string(message) + '}';
}

std::vector<std::string_view> extensions(bool shared_memory) {
  std::vector<std::string_view> names = {"binary_tensor_data",
                                         "classification",
                                         "model_repository",
                                         "schedule_policy",
                                         "model_configuration",
                                         "parameters",
                                         "statistics",
                                         "trace",
                                         "logging"};
  if (shared_memory) names.push_back("system_shared_memory");
  return names;
}

std::string server_metadata_json(std::string_view version, bool shared_memory) {
  return "{\"name\":\"gradus\",\"version\":" + json_string(version) +
         ",\"extensions\":" + list(extensions(shared_memory)) + '}';
}

std::string model_names_json(const std::vector<std::string>& names) {
  return "{\"models\":" + list(names) + '}';
}

std::string model_metadata_json(const serving::ModelInfo& model) {
  return "{\"name\":" + json_string(model.name) + ",\"versions\":" + list(model.versions) +
         ",\"platform\":" + json_string(kPlatform) +
         ",\"inputs\":" + specs(model.signature.all_inputs()) +
         ",\"outputs\":" + specs(model.signature.outputs) + '}';
}

std::string index_json(const std::vector<serving::IndexEntry>& entries) {
  std::string out = "[";
  for (const serving::IndexEntry& entry : entries) {
    if (out.size() > 1) out += ',';
    out += "{\"name\":" + json_string(entry.name);
    if (!entry.version.empty()) out += ",\"version\":" + json_string(entry.version);
    out += ",\"state\":" + json_string(to_string(entry.state)) +
           ",\"reason\":" + json_string(entry.reason) + '}';
  }
  return out + ']';
}

}  // namespace gradus::api
