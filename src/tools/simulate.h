// `gradus simulate`: a policy tried on a load and faults in virtual time (docs/simulation.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace gradus::tools {

struct SimulateOptions {
  std::string scenario;          // a built-in one; empty: there is `trace`
  std::filesystem::path trace;   // a YAML file
  std::filesystem::path policy;  // a YAML file; empty: the defaults
  std::optional<std::uint64_t> seed;
  std::string rule = "gradus";
  bool compare = false;        // every rule, `rule` or not
  std::filesystem::path json;  // where the report goes as JSON too; empty: nowhere
  std::filesystem::path svg;   // … and its timeline
};

/// Takes about 2 us of one core a request.
/// @param out the table; @param err what is wrong
/// @return the exit code: 0 ok, 1 a file could not be written, 2 a faulty command line or file
int simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::tools
