// Compressed messages. gRPC would inflate them on the thread that reads for all calls, whatever
// size they come to.
#pragma once
#include <cstddef>

#include "base/result.h"

namespace grpc {
class ByteBuffer;
}

namespace gradus::api {

bool is_compressed(grpc::ByteBuffer& message);

/// Puts what a compressed message holds in its place.
/// @return kOverloaded: it holds more than `most` bytes; kInvalid: it is corrupt or cut off;
///   kInternal: there is no memory for it
Result<void> inflate_message(grpc::ByteBuffer& message, std::size_t most);

}  // namespace gradus::api
