// From how things stand, looked at again and again, to events: what began and what is over. Pure;
// one owner at a time. Nothing begins before a model's alerts are due (ladder/status.h).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "config/model_config.h"
#include "ladder/state.h"
#include "serving/observer.h"

namespace gradus::worker {
struct WorkerStatus;
}

namespace gradus::serving {

/// A ladder at one moment, as far as the watch cares.
struct Standing {
  struct Level {
    int number = 0;
    ladder::Condition condition = ladder::Condition::kLoading;
    std::string reason;        // why it is not ready
    std::uint32_t losses = 0;  // since the start, however short; this one included
  };
  bool alerts_due = false;
  std::optional<int> current;  // nothing: no level can answer
  bool degraded = false;
  bool saturated = false;
  bool urgent = false;
  std::vector<Level> levels;  // best first
};

/// Quick, for use under the ladder's lock.
/// @param losses one for each level
Standing standing_of(const ladder::State& state, const std::vector<std::uint32_t>& losses,
                     TimePoint at);

class ModelWatch {
 public:
  /// Saturation comes and goes with each breath of the load: it is over only after so long without.
  static constexpr Duration kSaturatedQuiet = std::chrono::seconds(10);

  ModelWatch(std::string model, std::string version, const config::ModelConfig& config);

  /// Both watch the same version of the same model.
  bool same_as(const ModelWatch& other) const {
    return model_ == other.model_ && version_ == other.version_;
  }

  /// What changed since the last look; `Event::at` is left to the caller. An urgent state lasts as
  /// long as the ladder stands on the last level, with or without traffic.
  std::vector<Event> look(const Standing& now, TimePoint at);
  /// All that lasts is over: this version is not served any more.
  std::vector<Event> end();
  /// Before the first look: what lasts there goes on here, as the model was loaded anew.
  /// @return what ends all the same: losses of levels that there are no more
  std::vector<Event> succeed(ModelWatch& before);

 private:
  void settle(Event::Kind kind, bool holds, const std::string& begun, const std::string& ended,
              std::vector<Event>& events, std::optional<int> level = {});  // level: of a begin
  void look_at_level(const Standing::Level& level, std::vector<Event>& events);
  std::string name_of(int level) const;  // `level 1 'cpu'`
  bool lasts(Event::Kind kind) const { return lasting_.contains(kind); }

  const std::string model_;
  const std::string version_;
  std::map<int, std::string> names_;
  std::map<Event::Kind, std::optional<int>> lasting_;  // all but lost levels; the begin's level
  std::map<int, bool> lost_;                           // by level
  std::map<int, std::uint32_t> losses_;                // at the last look
  TimePoint last_saturated_{};
};

class WorkersWatch {
 public:
  /// A crash loop is over when the worker runs again, or is not wanted any more, or gone.
  std::vector<Event> look(const std::vector<worker::WorkerStatus>& workers);

 private:
  std::map<std::string, bool> looping_;  // by device
};

}  // namespace gradus::serving
