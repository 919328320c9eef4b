// What one receiver is still to be told. One owner at a time; times come in as data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "serving/observer.h"

namespace gradus::alerts {

/// Of a receiver, since the start. Each event is in one of sent, dropped and waiting.
struct Counters {
  std::uint64_t sent = 0;     // events that it has taken
  std::uint64_t dropped = 0;  // events that it never will: too many waited, or it refused them
  std::uint64_t waiting = 0;
  std::uint64_t failed = 0;  // tries that failed
};

class Outbox {
 public:
  virtual ~Outbox() = default;

  /// Beyond what it holds, the oldest is dropped.
  virtual void add(const serving::Event& event, TimePoint now) = 0;

  /// What to post next; nothing: nothing is due. The caller says what came of it before it takes
  /// again, by one of the two below, or by neither: then the same is due again.
  virtual std::optional<std::string> take(TimePoint now, WallTime wall,
                                          const std::string& instance) = 0;
  virtual void delivered(TimePoint now) = 0;
  virtual void refused(TimePoint now) = 0;  // it will never be taken

  /// When take() has something; TimePoint::max(): not before the next event.
  virtual TimePoint due() const = 0;
  /// All but `failed`.
  virtual Counters counters() const = 0;
};

}  // namespace gradus::alerts
