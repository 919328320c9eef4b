// `gradus worker`: the child that the server starts for a device. For people it is of no use.
#pragma once
#include <sys/types.h>

namespace gradus::tools {

/// Serves the descriptor that the server left open, until the server ends it. Never returns; call
/// it from the main thread, before other threads exist.
/// @param server its process id
[[noreturn]] void worker(pid_t server);

}  // namespace gradus::tools
