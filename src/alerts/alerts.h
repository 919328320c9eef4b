// Who is told of events, and that it costs the engine nothing: an event is one log line and a place
// in bounded queues; a thread of its own sends from those. A receiver that is away changes nothing
// but its counters, and two log lines: when it goes and when it is back.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "alerts/outbox.h"
#include "alerts/poster.h"
#include "alerts/receiver.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "config/server_config.h"
#include "serving/observer.h"

namespace gradus::alerts {

struct ReceiverCounters {
  std::string receiver;  // `alertmanager`, `webhook`
  Counters counters;
};

class Alerts {
 public:
  /// Events, or alerts, that may wait for one receiver.
  static constexpr std::size_t kCapacity = 4096;

  /// @param config as validated by its table; without URLs events are logged, no more
  /// @param seed of the jitter
  Alerts(const config::AlertsConfig& config, const Clock& clock, std::uint64_t seed);
  /// As stop(), without waiting.
  ~Alerts();

  /// Any thread. Does not wait. (Transitions are not logged here: their ladder does.)
  void tell(const serving::Event& event);

  /// Sends from now on. Once.
  /// @param instance who this server is among all that tell the same receivers: `host:port`
  void start(std::string instance);
  /// Tries once more what waits, for at most so long, and sends nothing after that. What fires is
  /// not said to be over.
  void stop(Duration limit);

  /// Of the receivers that are configured. Any thread.
  std::vector<ReceiverCounters> counters() const;

 private:
  void run();
  TimePoint start_posts();
  void answered(const Reply& reply);
  bool over() const;

  const Clock& clock_;
  std::vector<std::string> shown_;  // receivers in log lines, by the poster's slots
  std::unique_ptr<Poster> poster_;  // null: no receiver
  std::string instance_;            // the thread's, once started
  std::mt19937_64 random_;          // the thread's

  mutable Mutex mutex_;
  std::vector<Receiver> receivers_ GUARDED_BY(mutex_);  // by the poster's slots; fixed
  bool stopping_ GUARDED_BY(mutex_) = false;
  TimePoint stop_by_ GUARDED_BY(mutex_){};

  std::jthread thread_;
};

}  // namespace gradus::alerts
