// From the engine's answer to the bytes of an inference response. Binary outputs are not copied:
// the segments point into the runtime's own memory.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/codec/output_forms.h"
#include "api/codec/output_wishes.h"
#include "api/codec/segment.h"
#include "base/result.h"
#include "serving/request.h"

namespace gradus::api {

/// The body is `head`, then the segments in order.
struct EncodedInfer {
  std::string head;               // JSON
  std::vector<Segment> segments;  // one for each binary output that is not empty
  /// Value of `Inference-Header-Content-Length`, the head's size. Nothing when there is no segment:
  /// then the body is `application/json`, else `application/octet-stream`.
  std::optional<std::size_t> header_length;
};

/// Any thread.
/// @param response its outputs lie in the order of the request's named outputs
/// @param wishes fulfilled: what lies in shared memory is said to, and not written here
/// @return kInvalid: an output has no JSON form and must be asked for as binary (FP16, BF16, BYTES
///   that are not UTF-8); kInternal: an output's bytes do not fit its type and shape
Result<EncodedInfer> encode_infer(const serving::Response& response, const OutputForms& forms,
                                  const OutputWishes& wishes = {});

}  // namespace gradus::api
