// From the bytes of an inference request to the engine's own form, and nothing else: no clock, no
// model, no socket. Sources: Open Inference Protocol v2, inference_rest.md; Triton's
// extension_binary_data.md and extension_parameters.md. docs/protocol.md says what is accepted.
//
// Binary tensors stay where they are: the request's views point into the body. Copied are JSON
// tensors (into typed memory), and a binary tensor that is not aligned for its element type; with
// body_offset() the first one always is.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/codec/output_forms.h"
#include "api/codec/output_wishes.h"
#include "base/clock.h"
#include "base/result.h"
#include "runtime/backend.h"
#include "serving/request.h"

namespace gradus::api {

/// A received body, already decompressed.
struct Body {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> storage;  // keeps the bytes; the decoded request holds on to it
  std::size_t readable_after = 0;       // bytes past the end that may be read, whatever they hold
};

/// With at least this much `readable_after` the JSON is parsed in place; with less it is copied
/// first, except where that many bytes of binary tensors follow it.
inline constexpr std::size_t kBodyPadding = 64;

/// Alignment of a buffer's start that body_offset() counts on.
inline constexpr std::size_t kBodyAlignment = 64;

struct DecodeLimits {
  std::size_t max_json_depth = 100;  // nested arrays and objects, the outermost is 1; 1..1000
  SharedInputs shared;
};

/// The longest `timeout` a request may give: longer ones are refused, so that arrival + timeout
/// never overflows.
inline constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);
inline constexpr auto kMostTimeoutUs = static_cast<std::uint64_t>(to_us(kLongestTimeout));

/// The greatest `priority`.
inline constexpr std::uint64_t kMostPriority = std::numeric_limits<std::uint32_t>::max();

/// What a tier may be called, for errors.
inline constexpr std::string_view kTierNames = "'realtime', 'standard' or 'batch'";

/// What a datatype may be called, for errors.
inline constexpr std::string_view kDatatypeNames =
    "BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BF16 or "
    "BYTES";

struct DecodedInfer {
  serving::Request request;  // arrival is left for the caller to stamp
  OutputForms forms;         // for encode_infer
  OutputWishes wishes;       // for fulfil and encode_infer
};

/// Where in a buffer aligned to kBodyAlignment a body must start so that its first binary tensor
/// is aligned too, in [0, kBodyAlignment).
/// @param json_length value of `Inference-Header-Content-Length`; nothing: no such header
constexpr std::size_t body_offset(std::optional<std::size_t> json_length) {
  return (kBodyAlignment - json_length.value_or(0) % kBodyAlignment) % kBodyAlignment;
}

/// Any thread. Every fault of the body is kInvalid and says which tensor or key, what came and
/// what was expected. kNotFound: a shared memory region; kUnavailable: no memory.
/// @param json_length value of `Inference-Header-Content-Length`, > 0 (0 asks for
///   decode_raw_infer); nothing: the whole body is JSON
Result<DecodedInfer> decode_infer(std::string_view model, std::string_view version, Body body,
                                  std::optional<std::size_t> json_length,
                                  const DecodeLimits& limits = {});

/// The `id` of a body that decode_infer refuses; "": it has none, or none can be read.
std::string request_id(const Body& body, std::optional<std::size_t> json_length,
                       const DecodeLimits& limits);

/// A raw request, `Inference-Header-Content-Length: 0`: the whole body is the model's only input
/// and every output is wanted as binary. The body's size settles the one dimension that may be
/// variable. A BYTES input must hold one element, the body itself. Any thread; kInvalid only.
Result<DecodedInfer> decode_raw_infer(std::string_view model, std::string_view version, Body body,
                                      const runtime::Signature& signature);

}  // namespace gradus::api
