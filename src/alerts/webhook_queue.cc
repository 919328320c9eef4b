#include "alerts/webhook_queue.h"

#include <utility>

#include "alerts/event_text.h"

namespace gradus::alerts {

void WebhookQueue::add(const serving::Event& event, TimePoint) {
  if (!entries_.empty() && entries_.size() + (taken_ ? 1 : 0) >= capacity_) {
    entries_.pop_front();  // the one that is being posted may have arrived
    ++counters_.dropped;
  }
  entries_.push_back({event, ++numbers_});
}

std::optional<std::string> WebhookQueue::take(TimePoint, WallTime, const std::string& instance) {
  if (!taken_) {
    if (entries_.empty()) return std::nullopt;
    taken_ = std::move(entries_.front());
    entries_.pop_front();
  }
  return webhook_json(taken_->event, instance,
                      instance + "/" + std::to_string(epoch_.time_since_epoch().count()) + "/" +
                          std::to_string(taken_->number));
}

void WebhookQueue::delivered(TimePoint) {
  ++counters_.sent;
  taken_.reset();
}

void WebhookQueue::refused(TimePoint) {
  ++counters_.dropped;
  taken_.reset();
}

TimePoint WebhookQueue::due() const {
  return taken_ || !entries_.empty() ? TimePoint::min() : TimePoint::max();
}

Counters WebhookQueue::counters() const {
  Counters counters = counters_;
  counters.waiting = entries_.size() + (taken_ ? 1 : 0);
  return counters;
}

}  // namespace gradus::alerts
