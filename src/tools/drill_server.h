// A `gradus serve` of the drill's own: a child process, and what its ladder says.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "tools/drill_scratch.h"

namespace gradus::tools {

/// What the drill wants to know of a ladder's status (docs/ladder.md).
struct LadderView {
  std::optional<int> current;
  bool loading = false;              // some level still is
  bool level_0_whole = false;        // ready, its breaker closed, its worker running
  std::string level_0_reason;        // why it is not ready
  std::optional<pid_t> worker;       // of level 0
  std::vector<int> ready;            // levels
  std::size_t transitions_down = 0;  // of those listed
};

/// kInternal: it is no such status.
Result<LadderView> parse_ladder(const std::string& json);

class DrillServer {
 public:
  /// Starts a server of the scratch repository and waits until all levels are loaded and level 0 is
  /// current. kUnavailable: it does not come to that, with the reason.
  static Result<DrillServer> start(const Scratch& scratch, const std::string& model);
  DrillServer(DrillServer&& other) noexcept;
  DrillServer& operator=(DrillServer&&) = delete;
  /// Kills it, and with it its workers.
  ~DrillServer();

  std::uint16_t port() const { return port_; }
  Result<LadderView> ladder() const;

 private:
  DrillServer(pid_t pid, std::string model) : pid_(pid), model_(std::move(model)) {}
  Result<void> wait_listening(const Scratch& scratch, TimePoint deadline);
  Result<void> wait_level_0(TimePoint deadline);

  pid_t pid_;  // 0 after it was moved from
  std::string model_;
  std::uint16_t port_ = 0;
};

}  // namespace gradus::tools
