// The calls that only ask, as health, metadata and statistics, and those that load and unload.
// Serialised messages in and out, so that nothing here needs a port.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serving/engine.h"

namespace gradus::api {

struct SmallCall {
  const char* method;  // `ServerLive`
  /// @return kInvalid: the request is no message of its type; kNotFound, kUnavailable: of the model
  Result<std::string> (*answer)(std::string_view request, const serving::Engine& engine);
};

std::span<const SmallCall> small_calls();

/// A call whose answer takes as long as a model's load.
struct SlowCall {
  const char* method;  // `RepositoryModelLoad`
  /// Returns at once.
  /// @param request not used once this returns
  /// @param done called once, from any thread, with the answer; errors as serving::Managed's, and
  ///   kInvalid: the request is no message of its type, or what it says makes no sense
  void (*start)(std::string_view request, serving::Engine& engine,
                std::function<void(Result<std::string>)> done);
};

std::span<const SlowCall> slow_calls();

}  // namespace gradus::api
