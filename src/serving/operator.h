// What an operator may tell a ladder (docs/operator.md). It goes before all that the policy makes
// of figures, and holds as long as the server does.
#pragma once
#include <optional>
#include <string>

#include "base/clock.h"

namespace gradus::serving {

struct LadderCommand {
  enum class Verb {
    kPin,      // this level is the current one while it is ready
    kUnpin,    // the policy decides again
    kDisable,  // this level is not wanted
    kEnable,   // it is wanted again
  };

  Verb verb = Verb::kUnpin;
  int level = 0;                     // of all but kUnpin
  std::optional<Duration> how_long;  // kPin; nothing: until it is taken back
  std::string reason;                // for people, one line; may be empty
  std::string who;                   // for the log
};

}  // namespace gradus::serving
