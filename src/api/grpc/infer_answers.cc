// The writing half of infer_messages.h.
#include <grpc_service.pb.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "api/grpc/infer_messages.h"

namespace gradus::api {
namespace {

using inference::InferParameter;

// Writes the pieces of a message: what is short is gathered, what is long stays where it lies.
class Pieces {
 public:
  void append(std::string_view text) { text_ += text; }

  // A field of type bytes, string or message: its tag, its length.
  void begin_field(std::uint32_t number, std::size_t size) {
    append_varint((number << 3) | 2);  // wire type 2: a length, then so many bytes
    append_varint(size);
  }

  void append(const Segment& data) {
    constexpr std::size_t kLong = 4096;
    if (data.bytes.size() < kLong) {
      text_.append(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
      return;
    }
    flush();
    segments_.push_back(data);
  }

  std::vector<Segment> take() && {
    flush();
    return std::move(segments_);
  }

 private:
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  void flush() {
    if (text_.empty()) return;
    const auto owner = std::make_shared<const std::string>(std::exchange(text_, {}));
    segments_.push_back({std::as_bytes(std::span(*owner)), owner});
  }

  std::string text_;
  std::vector<Segment> segments_;
};

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  while ((value >>= 7) != 0) ++size;
  return size;
}

void fill_parameters(const serving::Origin& origin, bool in_stream,
                     google::protobuf::Map<std::string, InferParameter>& parameters) {
  parameters["level"].set_int64_param(origin.level);
  parameters["level_name"].set_string_param(origin.level_name);
  parameters["variant"].set_string_param(origin.variant);
  parameters["degraded"].set_bool_param(origin.degraded);
  parameters["queue_us"].set_int64_param(to_us(origin.queue));
  parameters["run_us"].set_int64_param(to_us(origin.run));
  parameters["latency_ms"].set_double_param(to_ms(origin.latency));
  if (in_stream) parameters["triton_final_response"].set_bool_param(true);
}

void fill_place(const RegionRange& place, std::size_t byte_size,
                google::protobuf::Map<std::string, InferParameter>& parameters) {
  parameters["shared_memory_region"].set_string_param(place.region->name);
  parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(byte_size));
  if (place.offset > 0) {
    parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(place.offset));
  }
}

}  // namespace

Result<std::vector<Segment>> encode_message(const serving::Response& response, Envelope envelope,
                                            const OutputWishes& wishes) {
  const bool in_stream = envelope == Envelope::kStream;
  inference::ModelInferResponse head;
  head.set_model_name(response.model);
  head.set_model_version(response.version);
  head.set_id(response.id);
  fill_parameters(response.origin, in_stream, *head.mutable_parameters());
  std::size_t behind = 0;
  const auto bytes_of = [&](std::size_t i) {
    return wishes.place(i) != nullptr ? std::span<const std::byte>()
                                      : response.outputs[i].tensor.data;
  };
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    const NamedTensor& output = response.outputs[i];
    const Tensor& tensor = output.tensor;
    if (auto fits = check_byte_size({tensor.dtype, tensor.shape, tensor.data}); !fits) {
      return fail(Code::kInternal, "output '" + output.name + "': " + fits.error().message);
    }
    auto& to = *head.add_outputs();
    to.set_name(output.name);
    to.set_datatype(std::string(dtype_name(tensor.dtype)));
    to.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    if (const RegionRange* const place = wishes.place(i)) {
      fill_place(*place, tensor.data.size(), *to.mutable_parameters());
    }
    behind += 1 + varint_size(bytes_of(i).size()) + bytes_of(i).size();
  }
  const std::string text = head.SerializeAsString();
  if (text.size() + behind > std::numeric_limits<std::int32_t>::max() - 16) {
    return fail(Code::kInternal, "the answer has " + std::to_string(text.size() + behind) +
                                     " bytes; a message over gRPC holds 2^31 - 1");
  }
  Pieces pieces;
  if (in_stream) {
    pieces.begin_field(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
                       text.size() + behind);
  }
  pieces.append(text);
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    pieces.begin_field(inference::ModelInferResponse::kRawOutputContentsFieldNumber,
                       bytes_of(i).size());
    pieces.append(Segment{bytes_of(i), response.outputs[i].tensor.owner});
  }
  return std::move(pieces).take();
}

std::vector<Segment> encode_stream_error(std::string_view text, std::string_view id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(std::string(text));
  message.mutable_infer_response()->set_id(std::string(id));
  Pieces pieces;
  pieces.append(message.SerializeAsString());
  return std::move(pieces).take();
}

}  // namespace gradus::api
