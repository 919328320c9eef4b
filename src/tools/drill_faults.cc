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
      {.name = "kill", .meaning = "the worker gets SIGKILL", .signal = SIGKILL},
      {.name = "stop", .meaning = "the worker gets SIGSTOP", .signal = SIGSTOP},
      {.name = "segv", .meaning = "a run ends in SIGSEGV", .order = order(Fault::kSegv, 1)},
      {.name = "abort", .meaning = "a run calls abort()", .order = order(Fault::kAbort, 1)},
      {.name = "exit", .meaning = "a run ends the process", .order = order(Fault::kExit, 1)},
      {.name = "hang", .meaning = "a run sleeps for ever", .order = order(Fault::kHang, 1)},
      {.name = "spin", .meaning = "a run computes for ever", .order = order(Fault::kSpin, 1)},
      {.name = "error",
       .meaning = "one run fails",
       .order = order(Fault::kError, 1),
       .level_0_falls = false},
      {.name = "error3", .meaning = "three runs in a row fail", .order = order(Fault::kError, 3)},
      {.name = "alternate",
       .meaning = "every second run fails",
       .order = alternate,
       .ending = Ending::kOnceFallen},
      {.name = "sticky", .meaning = "all runs of the process fail", .order = sticky},
      {.name = "oom",
       .meaning = "three runs in a row find no memory",
       .order = order(Fault::kOutOfMemory, 3)},
      {.name = "nan", .meaning = "three runs in a row give NaN", .order = order(Fault::kNan, 3)},
      {.name = "gone",
       .meaning = "the device disappears, and comes back",
       .gone = true,
       .ending = Ending::kOnceFallen},
      {.name = "slow",
       .meaning = "runs take three times the target",
       .slow = true,
       .ending = Ending::kOnceFallen},
  };
}

std::string known_names() {
  std::string names;
  for (const DrillFault& fault : drill_faults()) {
    names += names.empty() ? "" : ", ";
    names += fault.name;
  }
  return names;
}

}  // namespace

std::span<const DrillFault> drill_faults() {
  static const std::vector<DrillFault> faults = make_faults();
  return faults;
}

Result<std::vector<DrillFault>> parse_drill_faults(std::string_view list) {
  const std::span<const DrillFault> known = drill_faults();
  if (list.empty()) return std::vector<DrillFault>(known.begin(), known.end());
  std::vector<DrillFault> chosen;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    const auto found = std::ranges::find(known, name, &DrillFault::name);
    if (found == known.end()) {
      return fail(Code::kInvalid,
                  "--fault: unknown fault '" + std::string(name) + "'; there are " + known_names());
    }
    chosen.push_back(*found);
    begin = end + 1;
  }
  return chosen;
}

}  // namespace gradus::tools
