// What clients set while the server runs, as JSON, and how it is answered: Triton's
// extension_shared_memory.md, extension_logging.md and extension_trace.md.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/control/log_settings.h"
#include "api/control/shared_memory.h"
#include "api/control/trace_settings.h"
#include "base/result.h"

namespace gradus::api {

/// @param body `{"key": "/input", "offset": 0, "byte_size": 3136}`; without an offset it is 0
Result<SharedMemory::Asked> decode_region(std::string name, std::span<const std::byte> body);
/// A list, as the status of all regions and of one are answered.
std::string regions_json(const std::vector<std::shared_ptr<const Region>>& regions);

/// @param body `{"log_info": false, "log_verbose_level": 1}`; values of other types are refused,
///   names are not looked at
Result<LogSettings::Values> decode_log_settings(std::span<const std::byte> body);
std::string log_settings_json(const LogSettings::Values& values);

/// @param body `{"trace_level": ["TIMESTAMPS"], "trace_rate": "100", "trace_count": null}`; numbers
///   count as their text, and names are not looked at
Result<TraceValues> decode_trace_settings(std::span<const std::byte> body);
std::string trace_settings_json(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& settings);

}  // namespace gradus::api
