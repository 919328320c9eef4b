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

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMost = 80;
  return "'" + std::string(name.substr(0, kMost)) + (name.size() > kMost ? "…'" : "'");
}

tl::unexpected<Error> unexpected_value(std::string_view name, std::string_view wanted) {
  return refuse("parameter " + in_quotes(name) + " must be " + std::string(wanted));
}

// An integer of either sign's type in [least, most].
Result<std::uint64_t> integer(std::string_view name, const InferParameter& value,
                              std::uint64_t least, std::uint64_t most,
                              std::string_view wanted = "an int64_param or uint64_param") {
  std::optional<std::uint64_t> number;
  if (value.parameter_choice_case() == InferParameter::kUint64Param) number = value.uint64_param();
  if (value.parameter_choice_case() == InferParameter::kInt64Param && value.int64_param() >= 0) {
    number = static_cast<std::uint64_t>(value.int64_param());
  }
  if (!number || *number < least || *number > most) {
    return unexpected_value(name, std::string(wanted) + " in [" + std::to_string(least) + ", " +
                                      std::to_string(most) + "]");
  }
  return *number;
}

// As over HTTP: a number, or, since some clients' parameters are all text, its digits.
Result<std::uint64_t> integer_or_digits(std::string_view name, const InferParameter& value,
                                        std::uint64_t least, std::uint64_t most) {
  constexpr std::string_view kWanted = "an int64_param, a uint64_param or a string_param of digits";
  if (value.parameter_choice_case() != InferParameter::kStringParam) {
    return integer(name, value, least, most, kWanted);
  }
  InferParameter number;
  std::uint64_t read = 0;
  const std::string& text = value.string_param();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error == std::errc() && end == text.data() + text.size()) number.set_uint64_param(read);
  return integer(name, number, least, most, kWanted);
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
    const auto us = integer_or_digits(name, value, 0, kMostTimeoutUs);
    if (!us) return tl::unexpected(us.error());
    if (*us > 0) request.timeout = std::chrono::microseconds(*us);  // 0: none
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

// Where in shared memory the parameters say that a tensor lies.
Result<RegionName> read_place(const Parameters& parameters) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  RegionName place;
  for (const auto& [name, value] : parameters) {
    if (name == "shared_memory_region") {
      if (value.parameter_choice_case() != InferParameter::kStringParam) {
        return unexpected_value(name, "a string_param");
      }
      place.region = value.string_param();
    } else if (name == "shared_memory_offset" || name == "shared_memory_byte_size") {
      const auto bytes = integer(name, value, 0, kMost);
      if (!bytes) return tl::unexpected(bytes.error());
      (name == "shared_memory_offset" ? place.offset : place.byte_size) = *bytes;
    }
  }
  return place;
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

std::span<const std::byte> aligned(std::span<const std::byte> bytes, DType dtype, Kept& kept) {
  const std::size_t alignment = std::max<std::size_t>(1, element_size(dtype));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return bytes;
  return kept.copy({bytes.begin(), bytes.end()});
}

/// @param raw its data; nothing: it is in `contents`
/// @param place of a tensor in shared memory
Result<TensorView> read_tensor(const Message::InferInputTensor& input,
                               std::optional<std::span<const std::byte>> raw,
                               const RegionName& place, SharedInputs& shared, Kept& kept) {
  TensorView tensor;
  const auto dtype = parse_dtype(input.datatype());
  if (!dtype) {
    return refuse("'datatype' is " + in_quotes(input.datatype()) + "; expected " +
                  std::string(kDatatypeNames));
  }
  tensor.dtype = *dtype;
  if (input.shape_size() > kMostDimensions) {
    return refuse("'shape' has more than " + std::to_string(kMostDimensions) + " dimensions");
  }
  tensor.shape.assign(input.shape().begin(), input.shape().end());
  const auto count = element_count(tensor.shape);
  if (!count) return tl::unexpected(count.error());
  if (place.any()) {
    const auto range = find_range(shared.memory, place);
    if (!range) return tl::unexpected(range.error());
    auto read = read_shared(*range, *dtype, tensor.shape, *count, shared.most_bytes);
    if (!read) return tl::unexpected(std::move(read.error()));
    tensor.data = read->data;
    kept.copies.push_back(std::move(read->owner));
    return tensor;
  }
  if (raw) {
    tensor.data = aligned(*raw, *dtype, kept);
  } else {
    const auto data = TypedInput(input.contents(), *dtype, kept).read();
    if (!data) return tl::unexpected(data.error());
    tensor.data = *data;
  }
  if (auto fits = check_byte_size(tensor); !fits) return tl::unexpected(fits.error());
  return tensor;
}

Result<void> read_inputs(const Message& message, std::span<const std::span<const std::byte>> raws,
                         SharedInputs shared, Kept& kept, std::vector<NamedView>& inputs) {
  const std::size_t raw = raws.size();
  std::vector<RegionName> places;
  std::size_t in_message = 0;  // of raw_input_contents those in shared memory have no entry
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    if (input.name().empty()) return refuse("inputs[" + std::to_string(i) + "]: 'name' is empty");
    auto place = read_place(input.parameters());
    if (!place) return refuse("input " + in_quotes(input.name()) + ": " + place.error().message);
    const bool shares = place->any();
    if ((shares || raw > 0) && element_total(input.contents()) > 0) {
      return refuse("input " + in_quotes(input.name()) + ": has 'contents' beside " +
                    (shares ? "its place in shared memory; expected one of them"
                            : "the request's 'raw_input_contents'; send all inputs in one of the "
                              "two forms"));
    }
    if (!shares) ++in_message;
    places.push_back(std::move(*place));
  }
  if (raw > 0 && raw != in_message) {
    return refuse("raw_input_contents has " + std::to_string(raw) + " entries for " +
                  std::to_string(in_message) + " inputs; expected one for each");
  }
  std::size_t next = 0;
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    const RegionName& place = places[static_cast<std::size_t>(i)];
    const bool is_raw = raw > 0 && !place.any();
    auto tensor = read_tensor(input, is_raw ? std::optional(raws[next++]) : std::nullopt, place,
                              shared, kept);
    if (!tensor) {
      return fail(tensor.error().code,
                  "input " + in_quotes(input.name()) + ": " + tensor.error().message);
    }
    inputs.push_back({input.name(), std::move(*tensor)});
  }
  return {};
}

Result<OutputWish> read_wish(const Message::InferRequestedOutputTensor& output,
                             const SharedMemory* memory) {
  OutputWish wish;
  const auto place = read_place(output.parameters());
  if (!place) return tl::unexpected(place.error());
  auto range = find_range(memory, *place);
  if (!range) return tl::unexpected(std::move(range.error()));
  wish.place = std::move(*range);
  if (const auto found = output.parameters().find("classification");
      found != output.parameters().end()) {
    const auto classes = integer(found->first, found->second, 0, kMostClasses);
    if (!classes) return tl::unexpected(classes.error());
    wish.classes = static_cast<std::uint32_t>(*classes);
  }
  if (wish.place.region && wish.classes > 0) return refuse(std::string(kEitherWish));
  return wish;
}

Result<void> read_outputs(const Message& message, const SharedMemory* memory,
                          DecodedMessage& decoded) {
  bool any = false;
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto& output = message.outputs(i);
    if (output.name().empty()) return refuse("outputs[" + std::to_string(i) + "]: 'name' is empty");
    auto wish = read_wish(output, memory);
    if (!wish) {
      return fail(wish.error().code,
                  "output " + in_quotes(output.name()) + ": " + wish.error().message);
    }
    any = any || wish->place.region || wish->classes > 0;
    decoded.request.outputs.push_back(output.name());
    decoded.wishes.named.push_back(std::move(*wish));
  }
  if (!any) decoded.wishes.named.clear();
  return {};
}

}  // namespace

Result<DecodedMessage> decode_message(std::shared_ptr<const inference::ModelInferRequest> message,
                                      const SharedInputs& shared, std::vector<Segment> raw) {
  DecodedMessage decoded;
  serving::Request& request = decoded.request;
  request.model = message->model_name();
  request.version = message->model_version();
  request.id = message->id();
  if (auto read = read_parameters(message->parameters(), request); !read) {
    return tl::unexpected(read.error());
  }
  auto kept = std::make_shared<Kept>();
  std::vector<std::span<const std::byte>> raws;
  for (const std::string& text : message->raw_input_contents()) {
    raws.push_back(std::as_bytes(std::span(text)));
  }
  for (Segment& each : raw) {
    raws.push_back(each.bytes);
    kept->copies.push_back(std::move(each.owner));
  }
  if (auto read = read_inputs(*message, raws, shared, *kept, request.inputs); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = read_outputs(*message, shared.memory, decoded); !read) {
    return tl::unexpected(read.error());
  }
  kept->message = std::move(message);
  request.storage = std::move(kept);
  return decoded;
}

}  // namespace gradus::api
