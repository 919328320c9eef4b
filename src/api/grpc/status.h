// One translation of our codes to gRPC's (grpc/status.h); without a default, so that a new Code
// stops the build.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/result.h"

namespace gradus::api {

/// A full queue, or a deadline that cannot be made, is UNAVAILABLE: the one code that Triton's
/// server answers them with and that retry policies name. RESOURCE_EXHAUSTED would say that the
/// request itself is too much.
constexpr int grpc_status(Code code) {
  switch (code) {
    case Code::kInvalid:
      return 3;  // INVALID_ARGUMENT
    case Code::kNotFound:
      return 5;  // NOT_FOUND
    case Code::kDeadline:
      return 4;  // DEADLINE_EXCEEDED
    case Code::kCancelled:
      return 1;  // CANCELLED
    case Code::kOverloaded:
    case Code::kUnavailable:
    case Code::kWorkerLost:
      return 14;  // UNAVAILABLE
    case Code::kInternal:
      return 13;  // INTERNAL
  }
  std::abort();
}

/// What a status says: it travels in headers, of which clients take 8 KiB, and texts may hold names
/// of any length.
inline std::string status_text(const Error& error) {
  constexpr std::size_t kLongest = 2000;
  return error.message.substr(0, kLongest);
}

}  // namespace gradus::api
