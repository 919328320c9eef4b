// The calls by which clients set something while the server runs: shared memory, the log, traces;
// and ServerMetadata, which says what of it there is. Serialised messages in and out, so that
// nothing here needs a port.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "api/control/control.h"
#include "serving/engine.h"

namespace gradus::api {

struct ControlAnswer {
  int status = 0;    // gRPC's; 0: OK
  std::string text;  // the message, or what is wrong
};

struct ControlCall {
  const char* method;  // `LogSettings`
  /// @param version the server's
  /// @return INVALID_ARGUMENT, NOT_FOUND; ALREADY_EXISTS: a region of that name; UNIMPLEMENTED:
  /// CUDA
  ///   shared memory; UNAUTHENTICATED, PERMISSION_DENIED: the caller may not change this
  ControlAnswer (*answer)(std::string_view request, Control& control, const serving::Engine& engine,
                          std::string_view version, const Caller& caller);
};

std::span<const ControlCall> control_calls();

/// The address in gRPC's name for a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`; "": none.
std::string address_of_peer(std::string_view peer);

}  // namespace gradus::api
