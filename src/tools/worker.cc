#include "tools/worker.h"

#include "tools/serve.h"
#include "worker/host.h"

namespace gradus::tools {

void worker(pid_t server) { worker::host(server, kVersion, worker::ort_load); }

}  // namespace gradus::tools
