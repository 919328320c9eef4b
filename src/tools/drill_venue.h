// Where a drill takes place: a server of its own, or one that runs already.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/policy_config.h"
#include "tools/drill_faults.h"
#include "tools/drill_ladder.h"

namespace gradus::tools {

class Venue {
 public:
  virtual ~Venue() = default;

  /// Before each fault, and once before all: a server with level 0 current; a fresh one where it is
  /// the drill's own. kUnavailable: it does not come to that, and why.
  /// @param target of level 0, where the drill may choose it
  /// @param crash_loop whether some deaths in a row shall stop the restarts for a while
  virtual Result<LadderView> open(std::optional<std::chrono::milliseconds> target,
                                  bool crash_loop) = 0;

  virtual std::uint16_t port() const = 0;  // of 127.0.0.1, after open()
  /// Of a server that runs already: as the options say, or the defaults.
  virtual const config::PolicyConfig& policy() const = 0;
  /// What promotions are held to; nothing: it is not known.
  virtual std::optional<Duration> hold() const = 0;
  /// A fresh server for each fault, with targets and pauses of the drill's choice.
  virtual bool is_ours() const = 0;
  /// Of level 0's fault provider; null: it does not run on it.
  virtual fault::Control* control() = 0;
  virtual Reach reach() const = 0;
  /// Level 0 computes what the CPU level does, in the same way.
  virtual bool same_hardware() const = 0;

  /// Takes away what a fresh worker needs. kInternal: that failed.
  virtual Result<void> take(Taken taken) = 0;
  /// What the status has to say of it; "": nothing in particular.
  virtual std::string taken_name(Taken taken) const = 0;
  /// Gives all of it back, and clears the fault provider's orders.
  virtual void give_back() = 0;
};

}  // namespace gradus::tools
