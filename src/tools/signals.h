// SIGTERM, SIGINT and, unless it is ignored as under nohup, SIGHUP as something to wait for.
#pragma once
#include <chrono>

namespace gradus::tools {

class TerminationSignals {
 public:
  /// Blocks these signals for this thread and those it starts: construct before any thread starts.
  TerminationSignals();

  /// Waits for the next of them.
  void wait() const;
  /// True as soon as one arrives, false when none does in time.
  bool wait_for(std::chrono::milliseconds time) const;
};

}  // namespace gradus::tools
