// The faults of a drill by name: how each is made to strike, and what the status must say of it.
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

/// What is taken from the worker's restarts, until the status has said so.
enum class Taken {
  kNothing,
  kLibrary,   // the provider's library is gone; one failed restart
  kModel,     // the model's files are gone; nothing is loaded in the worker that starts
  kRestarts,  // no worker can load the model; restarts fail up to the crash loop
};

/// How soon another level has to answer, beyond one run of it.
enum class Promise {
  kNone,    // the fault shows only over many runs
  kAtOnce,  // a death or an error
  kMaxRun   // a hang is told by a run's limit alone
};

struct DrillFault {
  std::string_view name;
  std::string_view meaning;           // one line, for people
  int signal = 0;                     // sent to the worker of level 0; or
  std::optional<fault::Order> order;  // of its runs; or
  bool gone = false;                  // the device disappears; or
  bool slow = false;                  // its runs take longer
  Taken taken = Taken::kNothing;      // beside the signal
  Ending ending = Ending::kByItself;
  bool level_0_falls = true;  // false: one request is answered by another level, and that is all
  Promise promise = Promise::kAtOnce;
  // What the status may call it: the class of the lost worker's fault, or, where none was lost, the
  // cause of the move down; empty: neither happens.
  std::vector<std::string_view> classes;

  bool needs_fault_provider() const { return order || gone || slow; }
};

/// kRestarts on the fault provider: from now on no session can be created, for this reason.
inline constexpr const char* kNoRestart = "CUDA failure 35: CUDA driver version is insufficient";
Result<void> order_no_restart(fault::Control& control);

/// What the drill can do to level 0; signals it can always send.
struct Reach {
  bool orders = false;         // it runs on the fault provider, with a control file of ours
  bool hides_library = false;  // its provider's library can be taken away
  bool restarts = false;       // fresh workers can be kept from loading it
};

std::span<const DrillFault> drill_faults();

/// The faults of a list like `kill,hang`, in its order; for "" all within reach. Out of reach of
/// orders `norestart` is kModel.
/// kInvalid: a name that there is not, with those there are; or a fault out of reach, and why.
Result<std::vector<DrillFault>> parse_drill_faults(std::string_view list, const Reach& reach);

}  // namespace gradus::tools
