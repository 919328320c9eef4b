// The bytes' half of infer_messages.h.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc_service.pb.h>

#include <limits>
#include <string>
#include <utility>

#include "api/grpc/infer_messages.h"

namespace gradus::api {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Message = inference::ModelInferRequest;

// Of inputs, and of raw contents: an empty one takes two bytes to send and hundreds to keep.
constexpr int kMostTensors = 4096;
// Bytes of all else together, for the same reason: names, parameters, outputs that are asked for.
constexpr std::size_t kMostOthers = 1 << 20;

constexpr std::uint32_t tag_of(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// A length that the message has room for.
bool read_size(CodedInputStream& input, int& size) {
  if (!input.ReadVarintSizeAsInt(&size)) return false;
  const int left = input.BytesUntilLimit();  // -1: the limit is the largest int, or there is none
  return size <= (left < 0 ? std::numeric_limits<int>::max() - input.CurrentPosition() : left);
}

tl::unexpected<Error> no_message() {
  return fail(Code::kInvalid, "the message is no ModelInferRequest");
}

tl::unexpected<Error> too_many(const std::string& what, std::size_t most) {
  return fail(Code::kInvalid, "the request has more than " + std::to_string(most) + " " + what);
}

Result<void> read_tensor(CodedInputStream& input, worker::SharedPool& pool,
                         std::vector<Segment>& raw) {
  int size = 0;
  if (!read_size(input, size)) return no_message();
  if (size == 0) {
    raw.emplace_back();
    return {};
  }
  const auto room = static_cast<std::size_t>(size);
  worker::PoolBuffer buffer = pool.acquire(room);
  if (!buffer.owner) return fail(Code::kUnavailable, "no memory for the request");
  if (!input.ReadRaw(buffer.data, size)) return no_message();
  raw.push_back({{buffer.data, room}, std::move(buffer.owner)});
  return {};
}

// An input may hold many typed elements: it is parsed where it lies.
bool read_input(CodedInputStream& input, Message& message) {
  int size = 0;
  if (!read_size(input, size)) return false;
  const int end = input.CurrentPosition() + size;
  const auto outer = input.PushLimit(size);
  const bool whole = message.add_inputs()->MergePartialFromCodedStream(&input) &&
                     input.ConsumedEntireMessage() && input.CurrentPosition() == end;
  input.PopLimit(outer);
  return whole;
}

// What is neither is short, and gathered.
Result<void> read_fields(CodedInputStream& input, worker::SharedPool& pool, InferMessage& to,
                         std::string& others) {
  google::protobuf::io::StringOutputStream text(&others);
  google::protobuf::io::CodedOutputStream output(&text);
  while (const std::uint32_t tag = input.ReadTag()) {
    if (to.raw.size() > kMostTensors || to.message->inputs_size() > kMostTensors) {
      return too_many("inputs", kMostTensors);
    }
    if (tag == tag_of(Message::kRawInputContentsFieldNumber)) {
      if (auto read = read_tensor(input, pool, to.raw); !read) return read;
    } else if (tag == tag_of(Message::kInputsFieldNumber)) {
      if (!read_input(input, *to.message)) return no_message();
    } else if (!WireFormatLite::SkipField(&input, tag, &output)) {
      return no_message();
    }
    if (output.ByteCount() > static_cast<int>(kMostOthers)) {
      return too_many("bytes of names, parameters and outputs", kMostOthers);
    }
  }
  return input.ConsumedEntireMessage() ? Result<void>{} : no_message();
}

}  // namespace

Result<void> read_message(google::protobuf::io::ZeroCopyInputStream& bytes, std::size_t size,
                          worker::SharedPool& pool, InferMessage& to) {
  to.message = std::make_shared<Message>();
  CodedInputStream input(&bytes);
  input.PushLimit(static_cast<int>(size));
  std::string others;
  const auto read = read_fields(input, pool, to, others);
  const bool whole = to.message->MergeFromString(others);
  return !read || whole ? read : no_message();
}

}  // namespace gradus::api
