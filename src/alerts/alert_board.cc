#include "alerts/alert_board.h"

#include <algorithm>
#include <utility>

#include "alerts/event_text.h"

namespace gradus::alerts {
namespace {

using State = serving::Event::State;

constexpr int kResendsUntilForgotten = 4;

}  // namespace

void AlertBoard::add(const serving::Event& event, TimePoint now) {
  std::string labels = label_members(event);
  auto found = std::ranges::find(entries_, labels, &Entry::labels);
  if (found == entries_.end()) {
    if (entries_.size() >= capacity_) {
      counters_.dropped += entries_.front().changes;
      entries_.erase(entries_.begin());
    }
    entries_.push_back({.labels = std::move(labels), .event = event, .starts = event.at});
    found = entries_.end() - 1;
  }
  if (event.state != State::kEnded) found->starts = event.at;
  found->event = event;
  ++found->changes;
  found->due = now;
}

std::optional<std::string> AlertBoard::take(TimePoint now, WallTime wall,
                                            const std::string& instance) {
  std::string body;
  for (Entry& entry : entries_) {
    entry.in_post = entry.due <= now;
    if (!entry.in_post) continue;
    entry.taken = entry.changes;
    WallTime ends{};
    switch (entry.event.state) {
      case State::kOnce:
        ends =
            entry.starts + std::chrono::duration_cast<std::chrono::microseconds>(kTransitionLasts);
        break;
      case State::kBegun:
        ends = wall + std::chrono::duration_cast<std::chrono::microseconds>(kResendsUntilForgotten *
                                                                            resend_);
        break;
      case State::kEnded:
        ends = std::max(entry.event.at, entry.starts);  // wall time may have been set back
        break;
    }
    body += body.empty() ? "[" : ",";
    body += alert_json(entry.event, entry.labels, instance, entry.starts, ends);
  }
  if (body.empty()) return std::nullopt;
  return body + "]";
}

void AlertBoard::settle(TimePoint now, std::uint64_t& counter) {
  for (Entry& entry : entries_) {
    if (!entry.in_post) continue;
    entry.in_post = false;
    counter += entry.taken;
    entry.changes -= entry.taken;
    if (entry.changes == 0) entry.due = now + resend_;
  }
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.changes == 0 && entry.event.state != State::kBegun;
  });
}

void AlertBoard::delivered(TimePoint now) { settle(now, counters_.sent); }

void AlertBoard::refused(TimePoint now) { settle(now, counters_.dropped); }

TimePoint AlertBoard::due() const {
  TimePoint due = TimePoint::max();
  for (const Entry& entry : entries_) due = std::min(due, entry.due);
  return due;
}

Counters AlertBoard::counters() const {
  Counters counters = counters_;
  for (const Entry& entry : entries_) counters.waiting += entry.changes;
  return counters;
}

}  // namespace gradus::alerts
