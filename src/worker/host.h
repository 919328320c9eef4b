// The worker's side: a process that runs sessions for a server until the server ends, ends it, or
// stops listening. It trusts its server, and checks all the same what it reads.
//
// The main thread answers the control socket, so that a ping is answered whatever runs; each
// channel has a thread of its own, on which loads and runs take turns.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string_view>

#include "base/result.h"
#include "runtime/load.h"
#include "worker/spec_wire.h"

namespace gradus::worker {

using LoadFn = std::function<Result<runtime::Loaded>(const runtime::LoadSpec&)>;
/// Called once, before any channel exists.
using MakeLoadFn = std::function<Result<LoadFn>(const Greeting&)>;

/// ONNX Runtime's, with the greeting's options.
Result<LoadFn> ort_load(const Greeting& greeting);

/// Serves descriptor 3. Call it from the main thread, before other threads exist; it ends the
/// process rather than return: drivers' destructors may hang.
/// @param server the process that started this one: where it is not our parent any more, we leave
/// @param version of this binary; another one's hello is refused
[[noreturn]] void host(pid_t server, std::string_view version, const MakeLoadFn& make);

}  // namespace gradus::worker
