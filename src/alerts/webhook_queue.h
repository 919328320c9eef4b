// The webhook's outbox: event after event, in their order, one a post.
#pragma once
#include <cstddef>
#include <deque>

#include "alerts/outbox.h"

namespace gradus::alerts {

class WebhookQueue final : public Outbox {
 public:
  /// @param epoch when this server started: makes its events' ids its own
  /// @param capacity events, the one that is being posted included
  WebhookQueue(WallTime epoch, std::size_t capacity) : epoch_(epoch), capacity_(capacity) {}

  void add(const serving::Event& event, TimePoint now) override;
  std::optional<std::string> take(TimePoint now, WallTime wall,
                                  const std::string& instance) override;
  void delivered(TimePoint now) override;
  void refused(TimePoint now) override;
  TimePoint due() const override;
  Counters counters() const override;

 private:
  struct Entry {
    serving::Event event;
    std::uint64_t number;
  };

  const WallTime epoch_;
  const std::size_t capacity_;
  std::optional<Entry> taken_;  // posted, and perhaps again
  std::deque<Entry> entries_;
  std::uint64_t numbers_ = 0;
  Counters counters_;
};

}  // namespace gradus::alerts
