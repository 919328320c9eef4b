// What the engine tells whoever watches it: each move of a ladder once, and each condition that
// somebody should know of when it begins and when it is over.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"

namespace gradus::serving {

struct Event {
  enum class Kind {
    kTransition,  // a ladder's current level changed
    kUnserved,    // no level of the model can answer
    kUrgent,      // the last level answers who would take a better one
    kDegraded,    // the current level is worse than the best one that is wanted; its end: recovered
    kSaturated,   // the current level is slow or overloaded, and no lower one would be better
    kLevelLost,   // a level was lost, or could not be loaded
    kCrashLoop,   // a device's worker dies again and again
  };
  enum class State { kOnce, kBegun, kEnded };  // kOnce: a transition

  Kind kind;
  State state;
  std::string model;         // of a crash loop empty: a device's levels may be of several models
  std::string version;       // the model's, which has a ladder of its own; of a crash loop empty
  std::optional<int> level;  // kUrgent: the last one; kLevelLost: that one
  std::string device;        // kCrashLoop: as in the workers' status
  std::optional<int> from;   // kTransition; nothing: no level could answer …
  std::optional<int> to;     // … or none can
  std::string cause;         // kTransition: ladder::Cause; kCrashLoop: worker::Loss::Cause
  std::string text;          // one line for people
  std::string reason;        // in a driver's or a worker's words, which the log has already
  WallTime at{};             // when it began, ended, or was
};

/// From any thread of the engine, with no lock held, possibly from a request's: returns soon, never
/// throws, and may be called until the engine is gone.
using Observer = std::function<void(const Event&)>;

}  // namespace gradus::serving
