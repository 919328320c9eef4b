// Both forms of a ModelConfig to the message, and where in the text a field stands.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "config/faults.h"
#include "triton/findings.h"

namespace inference {
class ModelConfig;
}

namespace gradus::triton {

struct Parsed {
  std::shared_ptr<const inference::ModelConfig> message;
  std::string serialised;
  Findings::LineOf line_of;  // empty: lines are not known
};

/// config.pbtxt: protobuf's text form, at most 1 MiB; a byte order mark is skipped.
/// @param file its name in faults; those have line and column
config::Loaded<Parsed> parse_text(std::string_view text, const std::string& file);

/// protobuf's JSON form; fields by either of their names.
/// @param shown_name in faults
config::Loaded<Parsed> parse_json(std::string_view json, const std::string& shown_name);

}  // namespace gradus::triton
