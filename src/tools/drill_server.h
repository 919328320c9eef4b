// A `gradus serve` of the drill's own: a child process.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "tools/drill_ladder.h"
#include "tools/drill_scratch.h"

namespace gradus::tools {

class DrillServer {
 public:
  /// Starts a server of the scratch repository and waits until all levels are loaded and level 0 is
  /// current. kUnavailable: it does not come to that, with the reason and the server's log.
  static Result<DrillServer> start(const Scratch& scratch, const std::string& model);
  DrillServer(DrillServer&& other) noexcept;
  DrillServer& operator=(DrillServer&&) = delete;
  /// Kills it, and with it its workers.
  ~DrillServer();

  std::uint16_t port() const { return port_; }
  Result<LadderView> ladder() const { return fetch_ladder(port_, model_); }

 private:
  DrillServer(pid_t pid, std::string model) : pid_(pid), model_(std::move(model)) {}
  Result<void> wait_listening(const Scratch& scratch, TimePoint deadline);
  Result<void> wait_level_0(TimePoint deadline);

  pid_t pid_;  // 0 after it was moved from
  std::string model_;
  std::uint16_t port_ = 0;
};

}  // namespace gradus::tools
