// What the drill reads of a ladder's status (docs/ladder.md).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gradus::tools {

struct LadderMove {
  std::chrono::microseconds at{};  // wall time, since 1970
  std::optional<int> from;
  std::optional<int> to;  // nothing: no level could answer
  std::string cause;

  bool down() const { return from && (!to || *to > *from); }
};

struct LadderView {
  std::optional<int> current;
  bool loading = false;    // some level still is
  std::vector<int> ready;  // levels
  std::vector<LadderMove> moves;
  // Of level 0:
  bool level_0_whole = false;  // ready, its breaker closed, its worker running
  std::string reason;          // why it is not ready
  std::string provider;        // in use; "": none
  std::chrono::milliseconds target{};
  std::optional<pid_t> worker;
  std::string worker_state;
  std::string last_fault;  // of its workers; "": none was lost
  std::string fault_class;
};

/// kInternal: it is no such status.
Result<LadderView> parse_ladder(const std::string& json);

/// Asks the server at that port of 127.0.0.1. kInvalid: it does not know the model; kUnavailable:
/// it cannot serve it, or does not answer.
Result<LadderView> fetch_ladder(std::uint16_t port, const std::string& model);

/// The moves that `before` did not have yet.
std::vector<LadderMove> moves_since(const LadderView& before, const LadderView& now);

}  // namespace gradus::tools
