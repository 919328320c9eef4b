// `gradus ladder`: the ladders of a running server as a table, and an operator's commands to them
// (docs/operator.md).
#pragma once
#include <optional>
#include <ostream>
#include <string>

namespace gradus::tools {

struct LadderOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string model;  // empty: all, which only a table can be of
  std::string verb;   // pin, unpin, disable, enable; empty: only a table
  std::string level;  // of all verbs but unpin
  std::optional<std::string> how_long;
  std::optional<std::string> reason;
  std::string token_file;
};

/// @param out the table, after the command if there was one; @param err what went wrong, in the
///   server's words where it is the server that refuses
/// @return the exit code: 0 ok, 1 failed, 2 a faulty command line
int ladder(const LadderOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::tools
