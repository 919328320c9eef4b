#include "alerts/receiver.h"

#include <algorithm>
#include <utility>

namespace gradus::alerts {
namespace {

constexpr double kJitter = 0.25;

Duration wait_after(int failures, double chance) {
  Duration wait = Receiver::kFirstWait;
  for (int i = 1; i < failures && wait < Receiver::kLongestWait; ++i) wait *= 2;
  wait = std::min(wait, Receiver::kLongestWait);
  return std::chrono::duration_cast<Duration>(wait * (1 + kJitter * (2 * chance - 1)));
}

}  // namespace

std::optional<std::string> Receiver::next_post(TimePoint now, WallTime wall,
                                               const std::string& instance) {
  if (posting_ || given_up_ || now < not_before_) return std::nullopt;
  auto body = outbox_->take(now, wall, instance);
  posting_ = body.has_value();
  return body;
}

Receiver::Change Receiver::answered(long status, TimePoint now, double chance) {
  posting_ = false;
  const bool refused = status == 400 || status == 413 || status == 422;
  if (status / 100 == 2 || refused) {
    refused ? outbox_->refused(now) : outbox_->delivered(now);
    failed_ += refused ? 1 : 0;
    failures_in_row_ = 0;
    not_before_ = TimePoint::min();
    if (!std::exchange(reachable_, true)) return Change::kReachable;
    return refused ? Change::kRefused : Change::kNone;
  }
  ++failed_;
  given_up_ = hurrying_;
  not_before_ = now + wait_after(++failures_in_row_, chance);
  return std::exchange(reachable_, false) ? Change::kUnreachable : Change::kNone;
}

TimePoint Receiver::due() const {
  if (posting_ || given_up_) return TimePoint::max();
  return std::max(outbox_->due(), not_before_);
}

Counters Receiver::counters() const {
  Counters counters = outbox_->counters();
  counters.failed = failed_;
  return counters;
}

void Receiver::hurry() {
  hurrying_ = true;
  not_before_ = TimePoint::min();
}

}  // namespace gradus::alerts
