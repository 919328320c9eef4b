// The faults of a drill by name, and how each is made to strike.
#pragma once
#include <fault_ep/control.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gradus::tools {

/// What ends a fault's work.
enum class Ending {
  kByItself,   // it strikes so many times, and is over
  kOnceFallen  // it stays until the ladder has left level 0
};

struct DrillFault {
  std::string_view name;
  std::string_view meaning;           // one line, for people
  int signal = 0;                     // sent to the worker of level 0; or
  std::optional<fault::Order> order;  // of its runs; or
  bool gone = false;                  // the device disappears; or
  bool slow = false;                  // its runs take longer
  Ending ending = Ending::kByItself;
  bool level_0_falls = true;  // false: one request is answered by another level, and that is all
};

std::span<const DrillFault> drill_faults();

/// The faults of a list like `kill,hang`, in its order; all for "".
/// kInvalid: a name that there is not, with those there are.
Result<std::vector<DrillFault>> parse_drill_faults(std::string_view list);

}  // namespace gradus::tools
