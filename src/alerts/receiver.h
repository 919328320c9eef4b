// One receiver: what it is still to be told, and when it is tried. Pure; one owner at a time.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "alerts/outbox.h"
#include "base/clock.h"

namespace gradus::alerts {

class Receiver {
 public:
  /// After a failure it is tried again after about 500 ms, then after twice as long each time, at
  /// most 30 s; a quarter more or less, by chance.
  static constexpr Duration kFirstWait = std::chrono::milliseconds(500);
  static constexpr Duration kLongestWait = std::chrono::seconds(30);

  enum class Change { kNone, kUnreachable, kReachable, kRefused };

  /// @param name for metrics: `alertmanager`, `webhook`
  /// @param url posted to
  Receiver(std::string name, std::string url, std::unique_ptr<Outbox> outbox)
      : name_(std::move(name)), url_(std::move(url)), outbox_(std::move(outbox)) {}

  const std::string& name() const { return name_; }
  const std::string& url() const { return url_; }

  void add(const serving::Event& event, TimePoint now) { outbox_->add(event, now); }
  /// The next body to post. Nothing: a post is under way, nothing is due, or it is too soon.
  std::optional<std::string> next_post(TimePoint now, WallTime wall, const std::string& instance);
  /// What came of the post: any 2xx has delivered it; 400, 413 and 422 speak of what was posted,
  /// which is given up; all else of the receiver, which is tried again.
  /// @param status 0: no answer; @param chance in [0, 1)
  /// @return kUnreachable and kReachable once each time, not for each try
  Change answered(long status, TimePoint now, double chance);
  /// When next_post() has something; max: not before an event or an answer.
  TimePoint due() const;
  Counters counters() const;

  /// The last tries: one at once, whatever the wait, and none after the next failure.
  void hurry();
  /// Of those: there is nothing more to do.
  bool done() const { return !posting_ && (given_up_ || outbox_->counters().waiting == 0); }

 private:
  std::string name_;
  std::string url_;
  std::unique_ptr<Outbox> outbox_;
  bool posting_ = false;
  bool reachable_ = true;
  bool hurrying_ = false;
  bool given_up_ = false;
  int failures_in_row_ = 0;
  std::uint64_t failed_ = 0;
  TimePoint not_before_ = TimePoint::min();
};

}  // namespace gradus::alerts
