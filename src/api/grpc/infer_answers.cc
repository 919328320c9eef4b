// The writing half of infer_messages.h.
#include <grpc_service.pb.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/grpc/infer_messages.h"

namespace gradus::api {
namespace {

using inference::InferParameter;

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  while ((value >>= 7) != 0) ++size;
  return size;
}

// Of a text whose field has a number under 16.
std::size_t field_size(std::size_t size) { return 1 + varint_size(size) + size; }

// Fields in protobuf's wire format. The answer's head is written here: a message of maps and
// strings that is filled to be serialised once costs a small model's request nearly as much as its
// run.
class Fields {
 public:
  // A field of type bytes, string or message: its tag, its length; its bytes follow.
  void begin(int number, std::size_t size) {
    tag(number, 2);
    varint(size);
  }

  void text(int number, std::string_view bytes) {
    begin(number, bytes.size());
    text_ += bytes;
  }

  // Of type bool, int64 or uint64.
  void integer(int number, std::uint64_t value) {
    tag(number, 0);
    varint(value);
  }

  void real(int number, double value) {
    tag(number, 1);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);  // little endian, as all that we run on
    text_.append(bytes, sizeof bytes);
  }

  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  void append(std::string_view bytes) { text_ += bytes; }
  void reserve(std::size_t size) { text_.reserve(size); }
  const std::string& bytes() const { return text_; }
  std::string take() { return std::exchange(text_, {}); }

 private:
  void tag(int number, unsigned wire_type) {
    varint((static_cast<std::uint64_t>(number) << 3) | wire_type);
  }

  std::string text_;
};

// A map's entries named `parameters`.
class Parameters {
 public:
  Parameters(Fields& to, int number) : to_(to), number_(number) {}

  void integer(std::string_view name, std::int64_t value) {
    value_.integer(InferParameter::kInt64ParamFieldNumber, static_cast<std::uint64_t>(value));
    add(name);
  }
  void boolean(std::string_view name, bool value) {
    value_.integer(InferParameter::kBoolParamFieldNumber, value ? 1 : 0);
    add(name);
  }
  void real(std::string_view name, double value) {
    value_.real(InferParameter::kDoubleParamFieldNumber, value);
    add(name);
  }
  void text(std::string_view name, std::string_view value) {
    value_.text(InferParameter::kStringParamFieldNumber, value);
    add(name);
  }

 private:
  void add(std::string_view name) {  // an entry is a message: key = 1, value = 2
    const std::string value = value_.take();
    to_.begin(number_, field_size(name.size()) + field_size(value.size()));
    to_.text(1, name);
    to_.text(2, value);
  }

  Fields& to_;
  const int number_;
  Fields value_;
};

// Pieces of a message: what is short is gathered, what is long stays where it lies.
class Pieces {
 public:
  Fields& fields() { return fields_; }

  void append(const Segment& data) {
    constexpr std::size_t kLong = 4096;
    if (data.bytes.size() < kLong) {
      fields_.append({reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()});
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
  void flush() {
    if (fields_.bytes().empty()) return;
    const auto owner = std::make_shared<const std::string>(fields_.take());
    segments_.push_back({std::as_bytes(std::span(*owner)), owner});
  }

  Fields fields_;
  std::vector<Segment> segments_;
};

void write_origin(const serving::Origin& origin, bool in_stream, Fields& to) {
  Parameters parameters(to, inference::ModelInferResponse::kParametersFieldNumber);
  parameters.integer("level", origin.level);
  parameters.text("level_name", origin.level_name);
  parameters.text("variant", origin.variant);
  parameters.boolean("degraded", origin.degraded);
  parameters.integer("queue_us", to_us(origin.queue));
  parameters.integer("run_us", to_us(origin.run));
  parameters.real("latency_ms", to_ms(origin.latency));
  if (in_stream) parameters.boolean("triton_final_response", true);
}

/// @param place in shared memory; null: the bytes are in the message
std::string described(const NamedTensor& output, const RegionRange* place) {
  using Output = inference::ModelInferResponse::InferOutputTensor;
  Fields said;
  said.text(Output::kNameFieldNumber, output.name);
  said.text(Output::kDatatypeFieldNumber, dtype_name(output.tensor.dtype));
  Fields shape;
  for (const std::int64_t dim : output.tensor.shape) shape.varint(static_cast<std::uint64_t>(dim));
  said.text(Output::kShapeFieldNumber, shape.bytes());
  if (place != nullptr) {
    Parameters parameters(said, Output::kParametersFieldNumber);
    parameters.text("shared_memory_region", place->region->name);
    parameters.integer("shared_memory_byte_size",
                       static_cast<std::int64_t>(output.tensor.data.size()));
    if (place->offset > 0) {
      parameters.integer("shared_memory_offset", static_cast<std::int64_t>(place->offset));
    }
  }
  return said.take();
}

}  // namespace

Result<std::vector<Segment>> encode_message(const serving::Response& response, Envelope envelope,
                                            const OutputWishes& wishes) {
  using Message = inference::ModelInferResponse;
  const bool in_stream = envelope == Envelope::kStream;
  Fields head;
  head.reserve(512);
  head.text(Message::kModelNameFieldNumber, response.model);
  head.text(Message::kModelVersionFieldNumber, response.version);
  head.text(Message::kIdFieldNumber, response.id);
  write_origin(response.origin, in_stream, head);
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
    head.text(Message::kOutputsFieldNumber, described(output, wishes.place(i)));
    behind += field_size(bytes_of(i).size());
  }
  const std::size_t size = head.bytes().size() + behind;
  if (size > std::numeric_limits<std::int32_t>::max() - 16) {
    return fail(Code::kInternal, "the answer has " + std::to_string(size) +
                                     " bytes; an answer over gRPC holds 2^31 - 17");
  }
  Pieces pieces;
  if (in_stream) {
    pieces.fields().begin(inference::ModelStreamInferResponse::kInferResponseFieldNumber, size);
  }
  pieces.fields().append(head.bytes());
  for (std::size_t i = 0; i < response.outputs.size(); ++i) {
    pieces.fields().begin(Message::kRawOutputContentsFieldNumber, bytes_of(i).size());
    pieces.append(Segment{bytes_of(i), response.outputs[i].tensor.owner});
  }
  return std::move(pieces).take();
}

std::vector<Segment> encode_stream_error(std::string_view text, std::string_view id) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(std::string(text));
  message.mutable_infer_response()->set_id(std::string(id));
  Pieces pieces;
  pieces.fields().append(message.SerializeAsString());
  return std::move(pieces).take();
}

}  // namespace gradus::api
