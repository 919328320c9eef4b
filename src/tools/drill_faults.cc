#include "tools/drill_faults.h"

#include <signal.h>

#include <algorithm>

namespace gradus::tools {
namespace {

using fault::Fault;
using fault::Order;

constexpr const char* kStays = "CUDA failure 700: an illegal memory access was encountered";

std::vector<DrillFault> make_faults() {
  const auto order = [](Fault fault, std::uint32_t count) {
    return Order{.fault = fault, .count = count};
  };
  Order alternate = order(Fault::kError, fault::kForever);
  alternate.every = 2;
  Order sticky = order(Fault::kError, 1);
  sticky.sticky = true;
  sticky.text = kStays;
  return {
      {.name = "kill",
       .meaning = "the worker gets SIGKILL",
       .signal = SIGKILL,
       .classes = {"died"}},
      {.name = "stop",
       .meaning = "the worker gets SIGSTOP",
       .signal = SIGSTOP,
       .promise = Promise::kMaxRun,
       .classes = {"hung"}},
      {.name = "segv",
       .meaning = "a run ends in SIGSEGV",
       .order = order(Fault::kSegv, 1),
       .classes = {"died"}},
      {.name = "abort",
       .meaning = "a run calls abort()",
       .order = order(Fault::kAbort, 1),
       .classes = {"died"}},
      {.name = "exit",
       .meaning = "a run ends the process",
       .order = order(Fault::kExit, 1),
       .classes = {"died"}},
      {.name = "hang",
       .meaning = "a run sleeps for ever",
       .order = order(Fault::kHang, 1),
       .promise = Promise::kMaxRun,
       .classes = {"hung"}},
      {.name = "spin",
       .meaning = "a run computes for ever",
       .order = order(Fault::kSpin, 1),
       .promise = Promise::kMaxRun,
       .classes = {"hung"}},
      {.name = "error",
       .meaning = "one run fails",
       .order = order(Fault::kError, 1),
       .level_0_falls = false},
      {.name = "error3",
       .meaning = "three runs in a row fail",
       .order = order(Fault::kError, 3),
       .classes = {"failures"}},
      {.name = "alternate",
       .meaning = "every second run fails",
       .order = alternate,
       .ending = Ending::kOnceFallen,
       .classes = {"error_rate"}},
      {.name = "sticky",
       .meaning = "all runs of the process fail",
       .order = sticky,
       .classes = {"sticky"}},
      {.name = "oom",
       .meaning = "three runs in a row find no memory",
       .order = order(Fault::kOutOfMemory, 3),
       .classes = {"out_of_memory"}},
      {.name = "nan",
       .meaning = "three runs in a row give NaN",
       .order = order(Fault::kNan, 3),
       .classes = {"failures"}},
      {.name = "gone",
       .meaning = "the device disappears, and comes back",
       .gone = true,
       .ending = Ending::kOnceFallen,
       .classes = {"failures"}},
      {.name = "slow",
       .meaning = "runs take three times the target",
       .slow = true,
       .ending = Ending::kOnceFallen,
       .promise = Promise::kNone,
       .classes = {"slow", "overload"}},  // slow runs keep others waiting
      {.name = "nolib",
       .meaning = "the provider's library is gone and the worker gets SIGKILL",
       .signal = SIGKILL,
       .taken = Taken::kLibrary,
       .classes = {"start"}},
      {.name = "norestart",
       .meaning = "no worker can load the model and the one that runs gets SIGKILL",
       .signal = SIGKILL,
       .taken = Taken::kRestarts,
       .classes = {"start"}},
  };
}

// A server looks for the files before it loads them again: no worker ends for want of them.
DrillFault fitted(DrillFault fault, const Reach& reach) {
  if (fault.taken == Taken::kRestarts && !reach.orders) {
    fault.meaning = "the model's files are gone and the worker gets SIGKILL";
    fault.taken = Taken::kModel;
    fault.classes = {"died"};
  }
  return fault;
}

std::string known_names() {
  std::string names;
  for (const DrillFault& fault : drill_faults()) {
    names += names.empty() ? "" : ", ";
    names += fault.name;
  }
  return names;
}

// Why it cannot be done; "": it can.
std::string out_of_reach(const DrillFault& fault, const Reach& reach) {
  if (fault.needs_fault_provider() && !reach.orders) {
    return "needs level 0 on the fault provider; on a running server also --control FILE, its "
           "control file (docs/fault-provider.md)";
  }
  if (fault.taken == Taken::kLibrary && !reach.hides_library) {
    return "needs a server of the drill's own and a provider whose library it can take away";
  }
  if (fault.taken == Taken::kRestarts && !reach.restarts) {
    return "needs a server of the drill's own, or level 0 on the fault provider and --control FILE";
  }
  return "";
}

}  // namespace

std::span<const DrillFault> drill_faults() {
  static const std::vector<DrillFault> faults = make_faults();
  return faults;
}

Result<void> order_no_restart(fault::Control& control) {
  Order none = {.fault = Fault::kError, .count = fault::kForever};
  none.text = kNoRestart;
  return control.order(fault::Place::kCreate, none);
}

Result<std::vector<DrillFault>> parse_drill_faults(std::string_view list, const Reach& reach) {
  const std::span<const DrillFault> known = drill_faults();
  std::vector<DrillFault> chosen;
  if (list.empty()) {
    for (const DrillFault& fault : known) {
      if (out_of_reach(fault, reach).empty()) chosen.push_back(fitted(fault, reach));
    }
    return chosen;
  }
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(list.substr(begin, end - begin));
    const auto found = std::ranges::find(known, name, &DrillFault::name);
    if (found == known.end()) {
      return fail(Code::kInvalid,
                  "--fault: unknown fault '" + name + "'; there are " + known_names());
    }
    if (const std::string why = out_of_reach(*found, reach); !why.empty()) {
      return fail(Code::kInvalid, "--fault: '" + name + "' " + why);
    }
    chosen.push_back(fitted(*found, reach));
    begin = end + 1;
  }
  return chosen;
}

}  // namespace gradus::tools
