// One of each thing that clients may set while the server runs; HTTP and gRPC share it.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "api/control/log_settings.h"
#include "api/control/permission.h"
#include "api/control/shared_memory.h"
#include "api/control/tracer.h"
#include "base/result.h"
#include "serving/engine.h"

namespace gradus::api {

/// What those are told who ask for what there is not, over every transport.
inline constexpr std::string_view kNoSharedMemory =
    "shared memory is not allowed: start the server with --allow-client-shm, or send tensors in "
    "the message";
inline constexpr std::string_view kNoCuda =
    "CUDA shared memory is not supported; register system shared memory, or send tensors in the "
    "message";
inline std::string no_region(std::string_view name) {
  return "there is no shared memory region '" + std::string(name.substr(0, 80)) + "'";
}
inline std::string name_taken(std::string_view name) {
  return "there is a shared memory region '" + std::string(name.substr(0, 80)) +
         "' already; unregister it first";
}

/// kNotFound: the engine knows no such model. "" is none, and no error.
Result<void> check_model(const serving::Engine& engine, std::string_view name);

/// One line of the log, before it is done, since it may be the last one.
/// @param model "": the server's
void log_change(const char* setting, std::string_view model, std::string_view peer);

struct Control {
  Permission permission;                        // to change what others see
  std::unique_ptr<SharedMemory> shared_memory;  // null: clients may not use any
  LogSettings log;
  std::unique_ptr<Tracer> tracer = std::make_unique<Tracer>();
};

}  // namespace gradus::api
