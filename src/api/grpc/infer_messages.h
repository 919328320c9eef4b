// Between the messages of ModelInfer and the engine's own form: pure functions, without a port.
// Sources: Open Inference Protocol v2, inference_grpc.md; Triton's grpc_service.proto and
// extension_parameters.md. docs/protocol.md says what is accepted.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "api/codec/output_wishes.h"
#include "api/codec/segment.h"
#include "base/result.h"
#include "serving/request.h"
#include "worker/shared_pool.h"

namespace google::protobuf::io {
class ZeroCopyInputStream;
}

namespace inference {
class ModelInferRequest;
}

namespace gradus::api {

/// A request as it came, its raw tensors beside it.
struct InferMessage {
  std::shared_ptr<inference::ModelInferRequest> message;  // without raw_input_contents
  std::vector<Segment> raw;                               // aligned to 64
};

/// Parses a ModelInferRequest. Its raw tensors are copied once, from the stream to the pool, where
/// workers can read them; protobuf would copy one of over 50 MB nearly twice. Any thread.
/// @param size of all bytes @param to gets what could be read, its `message` in any case
/// @return kInvalid: it is none; kUnavailable: no memory
Result<void> read_message(google::protobuf::io::ZeroCopyInputStream& bytes, std::size_t size,
                          worker::SharedPool& pool, InferMessage& to);

struct DecodedMessage {
  serving::Request request;
  OutputWishes wishes;  // for fulfil and encode_message
};

/// Raw and most typed tensors are views into the message; copied are typed INT8, INT16, UINT8,
/// UINT16 and BYTES, and raw data that is not aligned for its type. Any thread.
/// @param message kept by the request's `storage`; not changed by anyone any more
/// @param raw what was taken out of its raw_input_contents; kept too
/// Inputs in shared memory are copied from there.
/// @return the request's `arrival` is left for the caller to stamp. kInvalid names the input,
///   output or parameter; kNotFound: a shared memory region; kUnavailable: no memory
Result<DecodedMessage> decode_message(std::shared_ptr<const inference::ModelInferRequest> message,
                                      const SharedInputs& shared = {},
                                      std::vector<Segment> raw = {});

enum class Envelope : bool { kNone, kStream };  // ModelInferResponse, or it in a stream's message

/// The serialised answer in pieces, to be sent one after the other. Large outputs are not copied:
/// their pieces lie in the runtime's own memory. Any thread.
/// @param wishes fulfilled: what lies in shared memory is said to, with no bytes in the message
/// @return kInternal: an output's bytes do not fit its type and shape, or all is over 2^31 - 17
/// bytes
Result<std::vector<Segment>> encode_message(const serving::Response& response, Envelope envelope,
                                            const OutputWishes& wishes = {});

/// A ModelStreamInferResponse that says what is wrong with the request of that id.
std::vector<Segment> encode_stream_error(std::string_view text, std::string_view id);

}  // namespace gradus::api
