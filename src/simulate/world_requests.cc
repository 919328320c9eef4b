// Requests: from their arrival down the levels to the one answer, or to none.
#include <algorithm>
#include <utility>

#include "ladder/step.h"
#include "simulate/world.h"

namespace gradus::simulate {
namespace {

/// The same for requests of one shape; the first one is the sample's.
std::uint64_t shape_hash(std::uint32_t shape) { return std::uint64_t{shape} * 0x9e3779b97f4a7c15; }

}  // namespace

void World::arrive() {
  const Arrival arrival = arrival_;
  expect_arrival();
  ++arrived_;
  budget_.request();
  if (free_requests_.empty()) {
    free_requests_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const std::uint32_t index = free_requests_.back();
  free_requests_.pop_back();
  Request& request = requests_[index];
  request = {.arrival = now_,
             .deadline = now_ + arrival.deadline,
             .shape_number = arrival.shape,
             .shape = shape_hash(arrival.shape),
             .life = request.life};
  ++living_;
  push(request.deadline, Kind::kDeadline, index, request.life);
  if (rule_.ladder) {
    request.route = ladder::route(state_, {}, now_);
  } else {
    for (std::size_t i = 0; i < (rule_.all_levels ? levels_.size() : 1); ++i) {
      request.route.append(static_cast<int>(i), true);
    }
  }
  go_on(index);
}

void World::go_on(std::uint32_t index) {
  const Request& request = requests_[index];
  if (request.attempts[0] != nullptr && request.attempts[1] != nullptr) return;
  if (try_levels(index, Admission::kByEstimate)) return;
  // It has cost a run already: rather late than not at all.
  if (request.overloaded &&
      try_levels(index, request.ran ? Admission::kAlways : Admission::kNowAndThen)) {
    return;
  }
  if (request.attempts[0] != nullptr || request.attempts[1] != nullptr) return;
  give_up(index);
}

/// Null: it was tried, or cannot be.
LevelLane* World::untried(const Request& request, std::size_t place) const {
  LevelLane& level = *levels_[static_cast<std::size_t>(request.route[place])];
  return level.up && (request.tried >> place & 1) == 0 ? &level : nullptr;
}

bool World::try_levels(std::uint32_t index, Admission admission) {
  const Request& request = requests_[index];
  for (std::size_t place = 0; place < request.route.size(); ++place) {
    const LevelLane* const level = untried(request, place);
    if (level == nullptr) continue;
    // No device works twice for one request at once.
    const bool there = std::ranges::any_of(request.attempts, [&](const Attempt* attempt) {
      return attempt != nullptr && &attempt->level->lane() == &level->lane();
    });
    if (!there && place_on(index, place, admission, false)) return true;
  }
  return false;
}

bool World::place_on(std::uint32_t index, std::size_t place, Admission admission, bool hedges) {
  Request& request = requests_[index];
  LevelLane& level = *levels_[static_cast<std::size_t>(request.route[place])];
  Attempt& attempt = add_attempt(index, level);
  attempt.hedges = hedges;
  attempt.usual = level.prospect(request.shape, now_).usual();
  if (level.push(attempt, admission, !request.ran, now_) != Pushed::kTaken) {
    request.overloaded = true;
    end_attempt(attempt);
    return false;
  }
  request.tried |= 1U << place;
  if (rule_.ladder && !request.ran) {
    const auto number = static_cast<int>(level.index());
    ladder::step(state_, ladder::Planned{number, now_, request.overloaded});
  }
  for (std::size_t next = 0; rule_.hedges && next < request.route.size(); ++next) {
    if (!may_hedge(request, attempt, next)) continue;
    look_at(index, now_ + attempt.usual);
    break;
  }
  dispatch(level.lane());
  return true;
}

void World::give_up(std::uint32_t index) {
  const Request& request = requests_[index];
  if (rule_.ladder && request.overloaded && !request.ran) {
    ladder::step(state_, ladder::TooLate{request.route[0], now_});
  }
  finish(index, request.overloaded ? Ending::kRefused : Ending::kFailed, 0);
}

/// Nothing speaks against the level at that place, and it is on another device.
bool World::may_hedge(const Request& request, const Attempt& from, std::size_t place) const {
  const LevelLane* const level = untried(request, place);
  return level != nullptr && request.route.proven(place) && &level->lane() != &from.level->lane();
}

void World::look_at(std::uint32_t index, TimePoint hedge_at) {
  Request& request = requests_[index];
  request.hedge_at = hedge_at;
  if (hedge_at < request.deadline) push(hedge_at, Kind::kHedge, index, request.life);
}

void World::hedge(std::uint32_t index) {
  const Request& request = requests_[index];
  const auto& [one, other] = request.attempts;
  if (now_ != request.hedge_at || (one == nullptr) == (other == nullptr)) return;
  Attempt& from = one != nullptr ? *one : *other;
  for (std::size_t place = 0; place < request.route.size(); ++place) {
    if (!may_hedge(request, from, place)) continue;
    const LevelLane& next = *untried(request, place);
    const auto at = ladder::hedge_at({.started = from.queued_at,
                                      .usual = from.usual,
                                      .next = next.prospect(request.shape, now_),
                                      .upwards = next.index() < from.level->index(),
                                      .deadline = request.deadline});
    if (!at) continue;
    if (*at > now_) return look_at(index, *at);
    return start_hedge(index, from, place);
  }
}

// What only waits goes elsewhere; what runs is let run, at the cost of doing it twice.
void World::start_hedge(std::uint32_t index, Attempt& from, std::size_t place) {
  if (from.waiting()) {
    ladder::step(state_, ladder::TooLate{static_cast<int>(from.level->index()), now_});
    from.level->remove(from);
    end_attempt(from);
    return go_on(index);
  }
  if (budget_.take() && place_on(index, place, Admission::kNowAndThen, true)) ++outcome_.hedges;
}

void World::expire(std::uint32_t index) {
  for (const Attempt* const attempt : requests_[index].attempts) {
    if (!rule_.ladder || attempt == nullptr || !attempt->waiting()) continue;
    ladder::step(state_, ladder::TooLate{static_cast<int>(attempt->level->index()), now_});
  }
  finish(index, Ending::kMissed, 0);
}

void World::finish(std::uint32_t index, Ending ending, std::size_t level) {
  Request& request = requests_[index];
  outcome_.end(since_start(request.arrival), since_start(request.deadline), since_start(now_),
               ending, level, scenario_.levels[level].quality);
  ++request.life;
  --living_;
  free_requests_.push_back(index);
  for (Attempt* const attempt : std::exchange(request.attempts, {})) {
    if (attempt == nullptr) continue;
    if (attempt->waiting()) {
      attempt->level->remove(*attempt);
      end_attempt(*attempt);
    } else {
      stop_if_unwanted(attempt->run);
    }
  }
}

Attempt& World::add_attempt(std::uint32_t index, LevelLane& level) {
  if (free_attempts_.empty()) free_attempts_.push_back(&attempts_.emplace_back());
  Attempt& attempt = *free_attempts_.back();
  free_attempts_.pop_back();
  Request& request = requests_[index];
  attempt.request = index;
  attempt.life = request.life;
  attempt.shape_number = request.shape_number;
  attempt.shape = request.shape;
  attempt.deadline = request.deadline;
  attempt.level = &level;
  request.attempts[request.attempts[0] == nullptr ? 0 : 1] = &attempt;
  return attempt;
}

void World::end_attempt(Attempt& attempt) {
  if (wanted(attempt)) {
    auto& attempts = requests_[attempt.request].attempts;
    attempts[attempts[0] == &attempt ? 0 : 1] = nullptr;
  }
  free_attempts_.push_back(&attempt);
}

/// Its request waits for an answer.
bool World::wanted(const Attempt& attempt) const {
  return requests_[attempt.request].life == attempt.life;
}

/// The level did not answer it: on to the next one.
void World::failed(Attempt& attempt) {
  const bool goes_on = wanted(attempt);
  end_attempt(attempt);
  if (goes_on) go_on(attempt.request);
}

}  // namespace gradus::simulate
