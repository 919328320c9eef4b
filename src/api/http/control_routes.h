// What clients may set while the server runs, over HTTP: shared memory, the log, traces.
#pragma once
#include <memory>
#include <vector>

#include "api/control/control.h"
#include "api/http/admin.h"
#include "api/http/path_table.h"
#include "serving/engine.h"

namespace gradus::api {

/// @param engine borrowed, as `admin`, which says who may change the log and traces
std::vector<Path> control_paths(const serving::Engine& engine, std::shared_ptr<Control> control,
                                const Admin& admin);

}  // namespace gradus::api
