#include "api/grpc/infer_messages.h"

#include <grpc_service.pb.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "api/codec/infer_request.h"

namespace gradus::api {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using Message = inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

constexpr int kMostDimensions = 64;

tl::unexpected<Error> refuse(std::string message) {
  return fail(Code::kInvalid, std::move(message));
}

std::string quoted(std::string_view name) {
  constexpr std::size_t kMost = 80;
  return "'" + std::string(name.substr(0, kMost)) + (name.size() > kMost ? "…'" : "'");
}

tl::unexpected<Error> unexpected_value(std::string_view name, std::string_view wanted) {
  return refuse("parameter " + quoted(name) + " must be " + std::string(wanted));
}

// An integer of either sign's type in [least, most].
Result<std::uint64_t> integer(std::string_view name, const InferParameter& value,
                              std::uint64_t least, std::uint64_t most) {
  std::optional<std::uint64_t> number;
  if (value.parameter_choice_case() == InferParameter::kUint64Param) number = value.uint64_param();
  if (value.parameter_choice_case() == InferParameter::kInt64Param && value.int64_param() >= 0) {
    number = static_cast<std::uint64_t>(value.int64_param());
  }
  if (!number || *number < least || *number > most) {
    return unexpected_value(name, "an int64_param or uint64_param in [" + std::to_string(least) +
                                      ", " + std::to_string(most) + "]");
  }
  return *number;
}

// As over HTTP: a number, or, since some clients' parameters are all text, its digits.
Result<std::uint64_t> integer_or_digits(std::string_view name, const InferParameter& value,
                                        std::uint64_t least, std::uint64_t most) {
  if (value.parameter_choice_case() != InferParameter::kStringParam) {
    return integer(name, value, least, most);
  }
  InferParameter number;
  std::uint64_t read = 0;
  const std::string& text = value.string_param();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error == std::errc() && end == text.data() + text.size()) number.set_uint64_param(read);
  return integer(name, number, least, most);
}

Result<void> read_parameter(const std::string& name, const InferParameter& value,
                            serving::Request& request, bool& strict) {
  constexpr std::uint64_t kMostLevel = std::numeric_limits<int>::max();
  if (name == "strict") {
    if (value.parameter_choice_case() != InferParameter::kBoolParam) {
      return unexpected_value(name, "a bool_param");
    }
    strict = value.bool_param();
  } else if (name == "min_level" || name == "max_level") {
    const auto level = integer(name, value, 0, kMostLevel);
    if (!level) return tl::unexpected(level.error());
    (name == "min_level" ? request.min_level : request.max_level) = static_cast<int>(*level);
  } else if (name == "timeout") {
    const auto us = integer_or_digits(name, value, 1, kMostTimeoutUs);
    if (!us) return tl::unexpected(us.error());
    request.timeout = std::chrono::microseconds(*us);
  } else if (name == "priority") {
    const auto priority = integer(name, value, 0, kMostPriority);
    if (!priority) return tl::unexpected(priority.error());
    request.priority = *priority;
  } else if (name == "tier") {
    request.tier = config::tier_named(value.string_param());
    if (!request.tier) return unexpected_value(name, kTierNames);
  }
  return {};
}

Result<void> read_parameters(const Parameters& parameters, serving::Request& request) {
  bool strict = false;
  for (const auto& [name, value] : parameters) {
    if (auto read = read_parameter(name, value, request, strict); !read) return read;
  }
  if (strict) request.max_level = 0;
  if (request.min_level > request.max_level) {
    return refuse("parameter 'min_level' is " + std::to_string(request.min_level) +
                  "; expected at most 'max_level', " + std::to_string(request.max_level));
  }
  return {};
}

Result<void> refuse_unsupported(const Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    if (name.starts_with("shared_memory_")) {
      return refuse("parameter " + quoted(name) +
                    ": shared memory is not supported; send and take the tensor in the message");
    }
    if (name == "classification") {
      return refuse(
          "parameter 'classification' is not supported; take the whole output and sort it");
    }
  }
  return {};
}

std::size_t element_total(const InferTensorContents& c) {
  const auto size = [](const auto& values) { return static_cast<std::size_t>(values.size()); };
  return size(c.bool_contents()) + size(c.int_contents()) + size(c.int64_contents()) +
         size(c.uint_contents()) + size(c.uint64_contents()) + size(c.fp32_contents()) +
         size(c.fp64_contents()) + size(c.bytes_contents());
}

// What a decoded request keeps alive.
struct Kept {
  std::shared_ptr<const Message> message;
  std::vector<std::shared_ptr<const void>> copies;

  std::span<const std::byte> copy(std::vector<std::byte> bytes) {
    Tensor tensor = make_tensor(DType::kUint8, {}, std::move(bytes));
    copies.push_back(std::move(tensor.owner));
    return tensor.data;
  }
};

// One input's typed elements as the bytes that the runtime takes.
class TypedInput {
 public:
  TypedInput(const InferTensorContents& contents, DType dtype, Kept& kept)
      : contents_(contents), dtype_(dtype), kept_(kept) {}

  Result<std::span<const std::byte>> read() {
    switch (dtype_) {
      case DType::kBool:
        return view("bool_contents", contents_.bool_contents());
      case DType::kInt8:
        return narrow<std::int8_t>("int_contents", contents_.int_contents());
      case DType::kInt16:
        return narrow<std::int16_t>("int_contents", contents_.int_contents());
      case DType::kInt32:
        return view("int_contents", contents_.int_contents());
      case DType::kInt64:
        return view("int64_contents", contents_.int64_contents());
      case DType::kUint8:
        return narrow<std::uint8_t>("uint_contents", contents_.uint_contents());
      case DType::kUint16:
        return narrow<std::uint16_t>("uint_contents", contents_.uint_contents());
      case DType::kUint32:
        return view("uint_contents", contents_.uint_contents());
      case DType::kUint64:
        return view("uint64_contents", contents_.uint64_contents());
      case DType::kFp32:
        return view("fp32_contents", contents_.fp32_contents());
      case DType::kFp64:
        return view("fp64_contents", contents_.fp64_contents());
      case DType::kBytes:
        return pack();
      case DType::kFp16:
      case DType::kBf16:
        break;
    }
    return refuse(std::string(dtype_name(dtype_)) +
                  " has no typed contents; send it in raw_input_contents");
  }

 private:
  template <class Values>
  Result<void> only(std::string_view field, const Values& values) const {
    if (element_total(contents_) == static_cast<std::size_t>(values.size())) return {};
    return refuse(std::string(dtype_name(dtype_)) + " takes " + std::string(field) +
                  "; another field of 'contents' is filled");
  }

  template <class Values>
  Result<std::span<const std::byte>> view(std::string_view field, const Values& values) const {
    if (auto alone = only(field, values); !alone) return tl::unexpected(alone.error());
    return std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
  }

  template <class To, class Values>
  Result<std::span<const std::byte>> narrow(std::string_view field, const Values& values) {
    if (auto alone = only(field, values); !alone) return tl::unexpected(alone.error());
    std::vector<std::byte> bytes(static_cast<std::size_t>(values.size()) * sizeof(To));
    std::size_t at = 0;
    for (const auto value : values) {
      const auto small = static_cast<To>(value);
      if (small != value) {
        return refuse(std::string(field) + "[" + std::to_string(at / sizeof(To)) + "] is " +
                      std::to_string(value) + ", out of the range of " +
                      std::string(dtype_name(dtype_)));
      }
      std::memcpy(bytes.data() + at, &small, sizeof small);
      at += sizeof small;
    }
    return kept_.copy(std::move(bytes));
  }

  Result<std::span<const std::byte>> pack() {
    const auto& values = contents_.bytes_contents();
    if (auto alone = only("bytes_contents", values); !alone) return tl::unexpected(alone.error());
    std::vector<std::byte> bytes;
    for (const std::string& value : values) append_bytes_element(bytes, value);
    return kept_.copy(std::move(bytes));
  }

  const InferTensorContents& contents_;
  const DType dtype_;
  Kept& kept_;
};

std::span<const std::byte> aligned(const std::string& raw, DType dtype, Kept& kept) {
  const auto bytes = std::as_bytes(std::span(raw));
  const std::size_t alignment = std::max<std::size_t>(1, element_size(dtype));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return bytes;
  return kept.copy({bytes.begin(), bytes.end()});
}

/// @param raw its data; null: it is in `contents`
Result<TensorView> read_tensor(const Message::InferInputTensor& input, const std::string* raw,
                               Kept& kept) {
  TensorView tensor;
  const auto dtype = parse_dtype(input.datatype());
  if (!dtype) {
    return refuse("'datatype' is " + quoted(input.datatype()) + "; expected " +
                  std::string(kDatatypeNames));
  }
  tensor.dtype = *dtype;
  if (input.shape_size() > kMostDimensions) {
    return refuse("'shape' has more than " + std::to_string(kMostDimensions) + " dimensions");
  }
  tensor.shape.assign(input.shape().begin(), input.shape().end());
  if (auto count = element_count(tensor.shape); !count) return tl::unexpected(count.error());
  if (auto supported = refuse_unsupported(input.parameters()); !supported) {
    return tl::unexpected(supported.error());
  }
  if (raw != nullptr) {
    tensor.data = aligned(*raw, *dtype, kept);
  } else {
    const auto data = TypedInput(input.contents(), *dtype, kept).read();
    if (!data) return tl::unexpected(data.error());
    tensor.data = *data;
  }
  if (auto fits = check_byte_size(tensor); !fits) return tl::unexpected(fits.error());
  return tensor;
}

Result<void> read_inputs(const Message& message, Kept& kept, std::vector<NamedView>& inputs) {
  const int raw = message.raw_input_contents_size();
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    if (input.name().empty()) return refuse("inputs[" + std::to_string(i) + "]: 'name' is empty");
    if (raw > 0 && element_total(input.contents()) > 0) {
      return refuse("input " + quoted(input.name()) +
                    ": has 'contents' beside the request's 'raw_input_contents'; send all inputs "
                    "in one of the two forms");
    }
  }
  if (raw > 0 && raw != message.inputs_size()) {
    return refuse("raw_input_contents has " + std::to_string(raw) + " entries for " +
                  std::to_string(message.inputs_size()) + " inputs; expected one for each");
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    auto tensor = read_tensor(input, raw > 0 ? &message.raw_input_contents(i) : nullptr, kept);
    if (!tensor) return refuse("input " + quoted(input.name()) + ": " + tensor.error().message);
    inputs.push_back({input.name(), std::move(*tensor)});
  }
  return {};
}

Result<void> read_outputs(const Message& message, std::vector<std::string>& outputs) {
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto& output = message.outputs(i);
    if (output.name().empty()) return refuse("outputs[" + std::to_string(i) + "]: 'name' is empty");
    if (auto supported = refuse_unsupported(output.parameters()); !supported) {
      return refuse("output " + quoted(output.name()) + ": " + supported.error().message);
    }
    outputs.push_back(output.name());
  }
  return {};
}

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

}  // namespace

Result<serving::Request> decode_message(
    std::shared_ptr<const inference::ModelInferRequest> message) {
  serving::Request request;
  request.model = message->model_name();
  request.version = message->model_version();
  request.id = message->id();
  if (auto read = read_parameters(message->parameters(), request); !read) {
    return tl::unexpected(read.error());
  }
  auto kept = std::make_shared<Kept>();
  if (auto read = read_inputs(*message, *kept, request.inputs); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = read_outputs(*message, request.outputs); !read) {
    return tl::unexpected(read.error());
  }
  kept->message = std::move(message);
  request.storage = std::move(kept);
  return request;
}

Result<std::vector<Segment>> encode_message(const serving::Response& response, Envelope envelope) {
  const bool in_stream = envelope == Envelope::kStream;
  inference::ModelInferResponse head;
  head.set_model_name(response.model);
  head.set_model_version(response.version);
  head.set_id(response.id);
  fill_parameters(response.origin, in_stream, *head.mutable_parameters());
  std::size_t behind = 0;
  for (const NamedTensor& output : response.outputs) {
    const Tensor& tensor = output.tensor;
    if (auto fits = check_byte_size({tensor.dtype, tensor.shape, tensor.data}); !fits) {
      return fail(Code::kInternal, "output '" + output.name + "': " + fits.error().message);
    }
    auto& to = *head.add_outputs();
    to.set_name(output.name);
    to.set_datatype(std::string(dtype_name(tensor.dtype)));
    to.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    behind += 1 + varint_size(tensor.data.size()) + tensor.data.size();
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
  for (const NamedTensor& output : response.outputs) {
    pieces.begin_field(inference::ModelInferResponse::kRawOutputContentsFieldNumber,
                       output.tensor.data.size());
    pieces.append(Segment{output.tensor.data, output.tensor.owner});
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
