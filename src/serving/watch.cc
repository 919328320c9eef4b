#include "serving/watch.h"

#include <algorithm>
#include <utility>

#include "ladder/status.h"
#include "worker/supervisor.h"

namespace gradus::serving {
namespace {

using Kind = Event::Kind;
using State = Event::State;

bool left_out(const Standing::Level& level) {
  return level.condition == ladder::Condition::kSkipped ||
         level.condition == ladder::Condition::kDisabled;
}

std::optional<int> first_wanted(const Standing& standing) {
  const auto found = std::ranges::find_if_not(standing.levels, left_out);
  if (found == standing.levels.end()) return std::nullopt;
  return found->number;
}

std::optional<int> last_wanted(const Standing& standing) {
  const auto found = std::find_if_not(standing.levels.rbegin(), standing.levels.rend(), left_out);
  if (found == standing.levels.rend()) return std::nullopt;
  return found->number;
}

}  // namespace

Standing standing_of(const ladder::State& state, const std::vector<std::uint32_t>& losses,
                     TimePoint at) {
  Standing standing{.alerts_due = ladder::alerts_due(state, at),
                    .current = {},
                    .degraded = ladder::degraded(state),
                    .saturated = state.saturated,
                    .urgent = ladder::urgent(state, at),
                    .levels = {}};
  if (state.current) standing.current = state.levels[*state.current].number;
  for (std::size_t i = 0; i < state.levels.size(); ++i) {
    const ladder::LevelState& level = state.levels[i];
    standing.levels.push_back({level.number, level.condition, level.reason, losses[i]});
  }
  return standing;
}

ModelWatch::ModelWatch(std::string model, std::string version, const config::ModelConfig& config)
    : model_(std::move(model)), version_(std::move(version)) {
  for (const config::LevelConfig& level : config.levels) names_[level.level] = level.name;
}

std::string ModelWatch::name_of(int level) const {
  return "level " + std::to_string(level) + " '" + names_.at(level) + "'";
}

void ModelWatch::settle(Kind kind, bool holds, const std::string& begun, const std::string& ended,
                        std::vector<Event>& events, std::optional<int> level) {
  if (holds == lasts(kind)) return;
  if (holds) {
    lasting_[kind] = level;
  } else {
    level = lasting_[kind];
    lasting_.erase(kind);
  }
  events.push_back({.kind = kind,
                    .state = holds ? State::kBegun : State::kEnded,
                    .model = model_,
                    .version = version_,
                    .level = level,
                    .text = "model '" + model_ + "' " + (holds ? begun : ended)});
}

void ModelWatch::look_at_level(const Standing::Level& level, std::vector<Event>& events) {
  bool& lost = lost_[level.number];
  std::uint32_t& losses = losses_[level.number];
  const bool lost_between = level.losses != std::exchange(losses, level.losses);
  const auto tell = [&](State state, const std::string& what, const std::string& reason = "") {
    events.push_back({.kind = Kind::kLevelLost,
                      .state = state,
                      .model = model_,
                      .version = version_,
                      .level = level.number,
                      .text = "model '" + model_ + "' " + name_of(level.number) + " " + what,
                      .reason = reason});
  };
  if (level.condition == ladder::Condition::kUnavailable) {
    if (!std::exchange(lost, true)) tell(State::kBegun, "is unavailable", level.reason);
    return;
  }
  const bool ready = level.condition == ladder::Condition::kReady;
  if (!lost && lost_between && ready) {
    tell(State::kBegun, "was lost for a moment");
    lost = true;
  }
  // One that is loaded anew has not come back yet; one that is not wanted is not missed.
  if (lost && (ready || left_out(level))) {
    lost = false;
    tell(State::kEnded, ready ? "is ready again" : "is not wanted any more");
  }
}

std::vector<Event> ModelWatch::look(const Standing& now, TimePoint at) {
  std::vector<Event> events;
  if (!now.alerts_due) {  // losses of the start count with what is found then
    for (const Standing::Level& level : now.levels) losses_[level.number] = level.losses;
    return events;
  }
  for (const Standing::Level& level : now.levels) look_at_level(level, events);

  const std::string current = now.current ? name_of(*now.current) : "no level";
  const std::optional<int> best = first_wanted(now);
  const std::optional<int> last = last_wanted(now);
  settle(Kind::kUnserved, !now.current, "has no level that can answer",
         "is served again, by " + current, events);
  settle(Kind::kDegraded, now.degraded,
         "is degraded: " + current + " answers" +
             (best && best != now.current ? ", " + name_of(*best) + " is wanted" : ""),
         "has recovered: " + current + " answers", events);
  const bool urgent = now.urgent || (lasts(Kind::kUrgent) && now.degraded && now.current == last);
  settle(Kind::kUrgent, urgent,
         last ? "is down to minimum service: " + name_of(*last) + ", its last, answers" : "",
         "is above minimum service again: " + current + " answers", events, last);
  if (now.saturated) last_saturated_ = at;
  const bool saturated =
      now.saturated || (lasts(Kind::kSaturated) && at - last_saturated_ < kSaturatedQuiet);
  settle(Kind::kSaturated, saturated,
         "is saturated: " + current + " is slow or overloaded, and no lower level would be better",
         "is not saturated any more", events);
  return events;
}

std::vector<Event> ModelWatch::end() {
  std::vector<Event> events;
  const std::string gone = "is not served as version " + version_ + " any more";
  for (auto& [level, lost] : lost_) {
    if (!std::exchange(lost, false)) continue;
    events.push_back({.kind = Kind::kLevelLost,
                      .state = State::kEnded,
                      .model = model_,
                      .version = version_,
                      .level = level,
                      .text = "model '" + model_ + "' " + name_of(level) + " " + gone});
  }
  for (const Kind kind : {Kind::kUnserved, Kind::kDegraded, Kind::kUrgent, Kind::kSaturated}) {
    settle(kind, false, "", gone, events);
  }
  return events;
}

std::vector<Event> ModelWatch::succeed(ModelWatch& before) {
  lasting_ = std::exchange(before.lasting_, {});
  last_saturated_ = before.last_saturated_;
  for (auto& [level, lost] : before.lost_) {
    if (names_.contains(level)) lost_[level] = std::exchange(lost, false);
  }
  return before.end();
}

std::vector<Event> WorkersWatch::look(const std::vector<worker::WorkerStatus>& workers) {
  std::vector<Event> events;
  for (const worker::WorkerStatus& worker : workers) {
    bool& looping = looping_[worker.device];
    const bool begins = !looping && worker.state == worker::WorkerState::kCrashLoop;
    const bool ends = looping && (worker.state == worker::WorkerState::kRunning ||
                                  worker.state == worker::WorkerState::kIdle ||
                                  worker.state == worker::WorkerState::kStopped);
    if (!begins && !ends) continue;
    looping = begins;
    Event event{.kind = Kind::kCrashLoop,
                .state = begins ? State::kBegun : State::kEnded,
                .device = worker.device};
    const std::string who = "the worker of device '" + worker.device + "' ";
    event.text = ends ? who + "is out of its crash loop: " + std::string(to_string(worker.state))
                      : who + "keeps dying";
    if (worker.last_fault) {
      event.cause = to_string(worker.last_fault->cause);
      if (begins) event.reason = worker.last_fault->text;
    }
    events.push_back(std::move(event));
  }
  std::erase_if(looping_, [&](const auto& known) {
    const auto& [device, looping] = known;
    const auto found = std::ranges::find(workers, device, &worker::WorkerStatus::device);
    if (found != workers.end()) return false;
    if (looping) {
      events.push_back({.kind = Kind::kCrashLoop,
                        .state = State::kEnded,
                        .device = device,
                        .text = "the worker of device '" + device + "' is not wanted any more"});
    }
    return true;
  });
  return events;
}

}  // namespace gradus::serving
