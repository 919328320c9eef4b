#include "alerts/alerts.h"

#include <pthread.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "alerts/alert_board.h"
#include "alerts/event_text.h"
#include "alerts/webhook_queue.h"
#include "base/log.h"
#include "config/http_url.h"

namespace gradus::alerts {
namespace {

using serving::Event;

std::string alerts_url(std::string_view base) {
  while (base.ends_with('/')) base.remove_suffix(1);
  return std::string(base) + "/api/v2/alerts";
}

void log_event(const Event& event) {
  if (event.kind == Event::Kind::kTransition) return;
  const log::Severity severity = event.state == Event::State::kEnded ? log::Severity::kInfo
                                 : std::string_view(severity_of(event)) == "critical"
                                     ? log::Severity::kError
                                     : log::Severity::kWarning;
  const log::Field name{"event", name_of(event)};
  const log::Field state{"state", name_of(event.state)};
  if (!event.device.empty()) {
    log::write(severity, event.text, {name, state, {"device", event.device}});
    return;
  }
  const log::Field model{"model", event.model};
  const log::Field version{"version", event.version};
  if (event.level) {
    log::write(severity, event.text,
               {name, state, model, version, {"level", std::to_string(*event.level)}});
  } else {
    log::write(severity, event.text, {name, state, model, version});
  }
}

}  // namespace

Alerts::Alerts(const config::AlertsConfig& config, const Clock& clock, std::uint64_t seed)
    : clock_(clock), random_(seed) {
  if (!config.alertmanager_url.empty()) {
    receivers_.emplace_back("alertmanager", alerts_url(config.alertmanager_url),
                            std::make_unique<AlertBoard>(config.resend, kCapacity));
    shown_.push_back("alertmanager at " + config::masked_url(config.alertmanager_url));
  }
  if (!config.webhook_url.empty()) {
    receivers_.emplace_back("webhook", config.webhook_url,
                            std::make_unique<WebhookQueue>(wall_now(), kCapacity));
    shown_.push_back("webhook at " + config::masked_url(config.webhook_url));
  }
  if (!receivers_.empty()) {
    poster_ = std::make_unique<Poster>(receivers_.size(), config.timeout);
  }
}

Alerts::~Alerts() { stop(Duration::zero()); }

void Alerts::tell(const Event& event) {
  log_event(event);
  if (poster_ == nullptr) return;
  {
    const MutexLock lock(mutex_);
    for (Receiver& receiver : receivers_) receiver.add(event, clock_.now());
  }
  poster_->wake();
}

void Alerts::start(std::string instance) {
  if (poster_ == nullptr) return;
  instance_ = std::move(instance);
  thread_ = std::jthread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "alerts");
}

void Alerts::stop(Duration limit) {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    stop_by_ = clock_.now() + limit;
    for (Receiver& receiver : receivers_) receiver.hurry();
  }
  poster_->wake();
  thread_.join();
}

void Alerts::run() {
  for (;;) {
    const TimePoint next = start_posts();
    if (over()) return;
    for (const Reply& reply : poster_->wait(next - clock_.now())) answered(reply);
  }
}

// Until when there is nothing to do but to wait for replies.
TimePoint Alerts::start_posts() {
  struct Post {
    std::size_t slot;
    std::string url, body;
  };
  std::vector<Post> posts;
  TimePoint next = TimePoint::max();
  {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < receivers_.size(); ++i) {
      Receiver& receiver = receivers_[i];
      if (auto body = receiver.next_post(clock_.now(), wall_now(), instance_)) {
        posts.push_back({i, receiver.url(), std::move(*body)});
      }
      next = std::min(next, receiver.due());
    }
    if (stopping_) next = std::min(next, stop_by_);
  }
  for (Post& post : posts) poster_->start(post.slot, post.url, std::move(post.body));
  return next;
}

void Alerts::answered(const Reply& reply) {
  const double chance = std::uniform_real_distribution<>(0, 1)(random_);
  const std::string& who = shown_[reply.slot];
  Receiver::Change change{};
  {
    const MutexLock lock(mutex_);
    change = receivers_[reply.slot].answered(reply.status, clock_.now(), chance);
  }
  const std::string what = reply.status == 0 ? reply.error
                                             : "HTTP " + std::to_string(reply.status) +
                                                   (reply.error.empty() ? "" : ": " + reply.error);
  switch (change) {
    case Receiver::Change::kNone:
      break;
    case Receiver::Change::kUnreachable:
      log::warning("alerts do not reach the " + who + ", they wait: " + what);
      break;
    case Receiver::Change::kReachable:
      log::info("alerts reach the " + who + " again");
      break;
    case Receiver::Change::kRefused:
      log::warning("alerts are refused by the " + who + ": " + what);
      break;
  }
}

bool Alerts::over() const {
  const MutexLock lock(mutex_);
  return stopping_ &&
         (clock_.now() >= stop_by_ || std::ranges::all_of(receivers_, &Receiver::done));
}

std::vector<ReceiverCounters> Alerts::counters() const {
  const MutexLock lock(mutex_);
  std::vector<ReceiverCounters> all;
  for (const Receiver& receiver : receivers_) all.push_back({receiver.name(), receiver.counters()});
  return all;
}

}  // namespace gradus::alerts
