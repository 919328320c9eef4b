// Alertmanager's outbox: not events but the alerts that they amount to. An alert that fires is sent
// at once, and again every `resend`, each time with an end four of those ahead: if this server dies
// without a word it ends by itself. One that is over is sent with its end until that has been
// taken. A transition fires for `kTransitionLasts`. What changes while Alertmanager is away is sent
// as it stands when it is back.
// API: https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
#pragma once
#include <cstddef>
#include <vector>

#include "alerts/outbox.h"

namespace gradus::alerts {

class AlertBoard final : public Outbox {
 public:
  /// Longer than Alertmanager's usual `group_wait`, or nobody would be told.
  static constexpr Duration kTransitionLasts = std::chrono::minutes(5);

  /// @param capacity alerts
  AlertBoard(Duration resend, std::size_t capacity) : resend_(resend), capacity_(capacity) {}

  void add(const serving::Event& event, TimePoint now) override;
  /// A JSON array of all alerts that are due.
  std::optional<std::string> take(TimePoint now, WallTime wall,
                                  const std::string& instance) override;
  void delivered(TimePoint now) override;
  void refused(TimePoint now) override;
  TimePoint due() const override;
  /// An event that a later one of the same alert overtakes is sent or dropped with that.
  Counters counters() const override;

 private:
  struct Entry {
    std::string labels;    // what tells alerts apart
    serving::Event event;  // the latest
    WallTime starts{};
    std::uint64_t changes = 0;  // events that it has not been sent with …
    std::uint64_t taken = 0;    // … of which the post under way has so many
    bool in_post = false;
    TimePoint due{};
  };

  void settle(TimePoint now, std::uint64_t& counter);

  const Duration resend_;
  const std::size_t capacity_;
  std::vector<Entry> entries_;  // oldest first
  Counters counters_;
};

}  // namespace gradus::alerts
