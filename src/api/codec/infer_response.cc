#include "api/codec/infer_response.h"

#include "api/codec/json_values.h"
#include "base/json_text.h"

namespace gradus::api {
namespace {

void append_member(std::string& out, std::string_view key, std::string_view text) {
  append_json_string(out, key);
  out += ':';
  append_json_string(out, text);
}

void append_origin(std::string& out, const serving::Origin& origin) {
  out += "\"parameters\":{\"level\":" + std::to_string(origin.level) + ',';
  append_member(out, "level_name", origin.level_name);
  out += ',';
  append_member(out, "variant", origin.variant);
  out += origin.degraded ? ",\"degraded\":true" : ",\"degraded\":false";
  out += ",\"queue_us\":" + std::to_string(to_us(origin.queue));
  out += ",\"run_us\":" + std::to_string(to_us(origin.run)) + ",\"latency_ms\":";
  append_json_number(out, to_ms(origin.latency));
  out += '}';
}

// About the size of the JSON data, so that the head grows once.
std::size_t expected_text(const Tensor& tensor) {
  const std::size_t size = element_size(tensor.dtype);
  return size == 0 ? tensor.data.size() : tensor.data.size() / size * (size <= 4 ? 12 : 20);
}

void append_place(std::string& out, const RegionRange& place, std::size_t byte_size) {
  out += ",\"parameters\":{";
  append_member(out, "shared_memory_region", place.region->name);
  out += ",\"shared_memory_byte_size\":" + std::to_string(byte_size);
  if (place.offset > 0) out += ",\"shared_memory_offset\":" + std::to_string(place.offset);
  out += '}';
}

Result<void> append_output(EncodedInfer& to, const NamedTensor& output, Form form,
                           const RegionRange* place) {
  const Tensor& tensor = output.tensor;
  const auto named = [&](const Error& error, Code code) {
    return fail(code, "output '" + output.name + "': " + error.message);
  };
  if (auto fits = check_byte_size({tensor.dtype, tensor.shape, tensor.data}); !fits) {
    return named(fits.error(), Code::kInternal);
  }
  to.head += '{';
  append_member(to.head, "name", output.name);
  to.head += ',';
  append_member(to.head, "datatype", dtype_name(tensor.dtype));
  to.head += ",\"shape\":" + shape_text(tensor.shape);
  if (place != nullptr) {
    append_place(to.head, *place, tensor.data.size());
  } else if (form == Form::kJson) {
    to.head.reserve(to.head.size() + expected_text(tensor) + 64);
    to.head += ",\"data\":";
    if (auto written = append_json_values(to.head, tensor); !written) {
      return named(written.error(), written.error().code);
    }
  } else {
    to.head += ",\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.data.size()) + '}';
    if (!tensor.data.empty()) to.segments.push_back({tensor.data, tensor.owner});
  }
  to.head += '}';
  return {};
}

}  // namespace

Result<EncodedInfer> encode_infer(const serving::Response& response, const OutputForms& forms,
                                  const OutputWishes& wishes) {
  EncodedInfer encoded;
  std::string& head = encoded.head;
  head += '{';
  append_member(head, "model_name", response.model);
  head += ',';
  append_member(head, "model_version", response.version);
  head += ',';
  if (!response.id.empty()) {
    append_member(head, "id", response.id);
    head += ',';
  }
  append_origin(head, response.origin);
  head += ",\"outputs\":[";
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    if (i > 0) head += ',';
    auto written = append_output(encoded, response.outputs[i], forms.at(i), wishes.place(i));
    if (!written) return tl::unexpected(std::move(written.error()));
  }
  head += "]}";
  if (!encoded.segments.empty()) encoded.header_length = head.size();
  return encoded;
}

}  // namespace gradus::api
