// The calls that only ask: health, metadata, the index. Serialised messages in and out, so that
// nothing here needs a port.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serving/engine.h"

namespace gradus::api {

struct SmallCall {
  const char* method;  // `ServerLive`
  /// @param version the server's
  /// @return kInvalid: the request is no message of its type; kNotFound, kUnavailable: of the model
  Result<std::string> (*answer)(std::string_view request, const serving::Engine& engine,
                                std::string_view version);
};

std::span<const SmallCall> small_calls();

/// A call of the protocol that this server does not answer, and what to do instead.
struct UnansweredCall {
  const char* method;
  const char* advice;
};

std::span<const UnansweredCall> unanswered_calls();

}  // namespace gradus::api
