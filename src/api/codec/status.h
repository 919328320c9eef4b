// One translation of our codes to HTTP's; without a default, so that a new Code stops the build.
#pragma once
#include <cstdlib>

#include "base/result.h"

namespace gradus::api {

constexpr int http_status(Code code) {
  switch (code) {
    case Code::kInvalid:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kOverloaded:
      return 429;
    case Code::kDeadline:
      return 504;
    case Code::kCancelled:
      return 499;  // as nginx: the client has gone, or closed its side
    case Code::kUnavailable:
    case Code::kWorkerLost:
      return 503;
    case Code::kInternal:
      return 500;
  }
  std::abort();
}

}  // namespace gradus::api
