// `gradus serve`: from a checked configuration to a running server, until a signal ends it.
#pragma once
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "config/load.h"

namespace gradus::tools {

inline constexpr const char* kVersion = GRADUS_VERSION;

struct ServeOptions {
  std::optional<std::filesystem::path> config_file;
  std::vector<config::FlagValue> flags;
  std::vector<std::string> remarks;  // on flags; each is logged once, as a warning
  bool check_config = false;
};

/// Blocks until SIGTERM, SIGINT or SIGHUP has been followed by a drain; a second signal ends the
/// process at once with exit code 1. Call once, from the main thread, before other threads exist.
/// @param out what was asked for (--check-config); @param err faults of the configuration
/// @return the exit code: 0 ok, 1 failed, 2 a faulty command line or configuration
int serve(const ServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::tools
