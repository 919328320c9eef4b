#include "trace_world.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace gradus::ladder {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1000h};
constexpr Duration kHangs = 10s;

}  // namespace

TraceWorld::TraceWorld(std::uint64_t seed, TraceTotals& totals)
    : random_(seed), totals_(totals), last_move_(kStart) {
  gap_ = random_.one_of<Duration>({50ms, 200ms, 1s, 1s, 5s, 60s});
  end_ =
      kStart + std::min<Duration>(random_.one_of<Duration>({200s, 900s, 900s, 3000s}), 2000 * gap_);
  fails_after_ = random_.chance(50) ? Duration::zero() : random_.between(1us, 20ms);
  adversary_ = random_.chance(40);
  queues_ = random_.chance(25);
  hurried_ = random_.chance(25);
  add_levels();
  push({.at = kStart + random_.about(gap_), .kind = Kind::kArrival});
  push({.at = kStart, .kind = Kind::kTick});
  if (random_.chance(10)) push({.at = kStart + random_.between(0s, 300s), .kind = Kind::kOperator});
}

void TraceWorld::add_levels() {
  const std::size_t count = random_.one_of<std::size_t>({1, 2, 2, 2, 3, 3, 4, 8});
  std::vector<LevelSpec> specs;
  int number = 0;
  for (std::size_t i = 0; i < count; ++i, ++number) {
    if (random_.chance(15)) ++number;
    const Duration target = random_.between(20ms, 800ms);
    const bool accelerator = random_.chance(40);
    specs.push_back({number, target, accelerator});
    levels_.push_back({.number = number,
                       .target = target,
                       .service = target * random_.between(2ns, 90ns).count() / 100,
                       .load_time = random_.one_of<Duration>({0s, 100ms, 3s, 20s}),
                       .accelerator = accelerator,
                       .trace = LevelTrace(random_, kStart, end_),
                       .promotions = {}});
  }
  state_ = *make_state(specs, {}, kStart);
  for (std::size_t i = 0; i < count; ++i) {
    levels_[i].loading = true;
    push({.at = kStart + levels_[i].load_time + random_.between(0s, 2s),
          .kind = Kind::kLoaded,
          .level = i});
    for (const LevelTrace::Interval& interval : levels_[i].trace.intervals()) {
      if (interval.mode != Mode::kDead && interval.mode != Mode::kGone) continue;
      push({.at = interval.from, .kind = Kind::kModeChange, .level = i});
    }
  }
}

void TraceWorld::push(Event event) {
  event.order = order_++;
  events_.push(event);
}

std::string TraceWorld::run() {
  while (fault_.empty() && !events_.empty() && events_.top().at <= end_) {
    const Event event = events_.top();
    events_.pop();
    handle(event);
    check_state(event.at);
  }
  return fault_;
}

void TraceWorld::handle(const Event& event) {
  SimLevel& level = levels_[event.level];
  switch (event.kind) {
    case Kind::kArrival: {
      arrive(event.at);
      const int burst = random_.chance(2) ? 30 : 0;
      for (int i = 0; i < burst; ++i) arrive(event.at);
      push({.at = event.at + random_.about(gap_), .kind = Kind::kArrival});
      return;
    }
    case Kind::kOutcome: {
      const auto move = step(state_, Outcome{level.number, event.begun, event.at, event.queue,
                                             event.at - event.begun, event.ok, event.bucket});
      // A canary may fail once.
      if (event.ok || !state_.canary || state_.canary->level() != event.level) {
        note_end(level, event);
      }
      return note(move);
    }
    case Kind::kProbeDone:
      level.probing = false;
      note_end(level, event);
      note(step(state_, Probe{level.number, event.at, event.at - event.begun, event.ok}));
      // The way back of a level that was gone.
      if (!level.up && state_.levels[event.level].ready()) {
        level.up = level.was_up = true;
        level.counts_from = event.at;
      }
      return;
    case Kind::kTick:
      note(step(state_, Tick{event.at}));
      check_tick(event.at);
      check_idle(event.at);
      start_probes(event.at);
      if (queues_) predict();
      push({.at = event.at + 1s, .kind = Kind::kTick});
      return;
    case Kind::kModeChange:
      return change_mode(event.level, event.at);
    case Kind::kLoaded:
      return bring_up(event.level, event.at);
    case Kind::kOperator:
      return operate(event.at);
  }
}

Duration TraceWorld::service_of(const SimLevel& level, Mode mode) const {
  return mode == Mode::kSlow ? 2 * level.target + level.service : level.service;
}

TraceWorld::Attempt TraceWorld::attempt(SimLevel& level, TimePoint at, bool probe) {
  const Mode mode = level.trace.at(at);
  const Duration service = service_of(level, mode);
  switch (mode) {
    case Mode::kGood:
    case Mode::kSlow:
      break;
    case Mode::kProbesFail:
      if (probe) return {at + fails_after_, false};
      break;
    case Mode::kRequestsFail:
      if (!probe) return {at + fails_after_, false};
      break;
    case Mode::kFlaky:
      if (random_.chance(50)) return {at + fails_after_, false};
      break;
    case Mode::kHangs:
      return {at + kHangs, false};
    case Mode::kFails:
    case Mode::kGone:
    case Mode::kDead:
      return {at + fails_after_, false};
  }
  // It succeeds unless a worse time begins before it is through.
  for (TimePoint time = level.trace.end_of(at); time <= at + service;
       time = level.trace.end_of(time)) {
    const Mode then = level.trace.at(time);
    if (!answers(then) && then != mode) return {time, false};
  }
  return {at + service, true};
}

void TraceWorld::arrive(TimePoint at) {
  ++totals_.requests;
  const Duration timeout = random_.one_of<Duration>({100ms, 500ms, 2s, 10s});
  Accepted accepted;
  if (random_.chance(30)) accepted.min_level = levels_[random_.below(levels_.size())].number;
  if (random_.chance(30)) accepted.max_level = levels_[random_.below(levels_.size())].number;
  const Route route = ladder::route(state_, accepted, at);
  plan(route, at);
  const TimePoint half = at + timeout / 2;
  const std::uint64_t bucket = random_.chance(1) ? random_.below(1000) : random_.below(3);

  TimePoint next = at;
  std::optional<TimePoint> answered;
  bool time_was_lost = false;
  for (const int number : route) {
    if (answered && *answered <= next) break;
    const std::size_t index = index_of(state_, number);
    SimLevel& level = levels_[index];
    if (!level.up || level.disabled) return broken(at, "a route has a level that is not up");
    const TimePoint begun = next;
    const Attempt tried = attempt(level, begun, false);
    const Duration queue = queues_ ? random_.between(0s, level.target) : Duration::zero();
    push({.at = tried.ends,
          .kind = Kind::kOutcome,
          .level = index,
          .ok = tried.ok,
          .begun = begun,
          .queue = queue,
          .bucket = bucket});
    if (tried.ok) answered = std::min(answered.value_or(tried.ends), tried.ends);
    if (!tried.ok && tried.ends > begun) time_was_lost = true;
    if (tried.ok && tried.ends > half) time_was_lost = true;
    next = std::min(tried.ends, std::max(half, begun));
  }

  for (const SimLevel& level : levels_) {
    if (level.number < accepted.min_level || level.number > accepted.max_level) continue;
    if (!must_answer(level, at, timeout, time_was_lost)) continue;
    ++totals_.guaranteed;
    if (answered && *answered <= at + timeout) return;
    return broken(at, "level " + std::to_string(level.number) + " answers, takes " +
                          std::to_string(to_ms(level.service)) + " ms of " +
                          std::to_string(to_ms(timeout)) + " ms, and the request got no answer");
  }
}

/// "Answers during the whole of [arrival, arrival + service time]" if what was tried before failed
/// at once; else that time may have to be taken in the second half.
bool TraceWorld::must_answer(const SimLevel& level, TimePoint at, Duration timeout,
                             bool time_was_lost) const {
  if (!level.up || level.disabled) return false;
  Duration service = service_of(level, level.trace.at(at));
  for (TimePoint time = at; time <= at + service + (time_was_lost ? timeout / 2 : 0ns);
       time = level.trace.end_of(time)) {
    const Mode mode = level.trace.at(time);
    if (!answers(mode)) return false;
    service = std::max(service, service_of(level, mode));
  }
  return service <= timeout / 2;
}

void TraceWorld::plan(const Route& route, TimePoint at) {
  if (route.empty()) return;
  const bool below = hurried_ && route.size() > 1 && random_.chance(30);
  step(state_, Planned{route[below ? 1 : 0], at, below});
}

void TraceWorld::start_probes(TimePoint at) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    SimLevel& level = levels_[i];
    if (level.probing || level.loading || !wants_probe(state_, level.number, at)) continue;
    const Attempt tried = attempt(level, at, true);
    level.probing = true;
    push({.at = tried.ends, .kind = Kind::kProbeDone, .level = i, .ok = tried.ok, .begun = at});
  }
}

void TraceWorld::predict() {
  for (const SimLevel& level : levels_) {
    if (!random_.chance(10)) continue;
    const Duration p99 = random_.between(1ms, 2 * level.target);
    step(state_, Prediction{level.number, random_.one_of<std::optional<Duration>>(
                                              {std::nullopt, p99, p99, kCannotCarry})});
  }
}

void TraceWorld::change_mode(std::size_t index, TimePoint at) {
  SimLevel& level = levels_[index];
  const Mode mode = level.trace.at(at);
  if (mode != Mode::kDead && mode != Mode::kGone) return;  // an adversary rewrote the trace
  if (level.up) lose(index, at);
  if (mode == Mode::kDead && !level.loading && !level.disabled) {
    level.loading = true;
    push(
        {.at = level.trace.end_of(at) < end_ ? level.trace.end_of(at) + level.load_time : end_ + 1s,
         .kind = Kind::kLoaded,
         .level = index});
  }
}

void TraceWorld::lose(std::size_t index, TimePoint at) {
  SimLevel& level = levels_[index];
  level.up = false;
  level.bad_at = at;
  note(step(state_, Lost{level.number, at, "by the trace"}));
}

void TraceWorld::bring_up(std::size_t index, TimePoint at) {
  SimLevel& level = levels_[index];
  if (level.disabled) return;
  const Mode mode = level.trace.at(at);
  if (mode == Mode::kDead || mode == Mode::kGone) {  // the load fails; again in a while
    if (!level.was_up) level.missed = true;
    note(step(state_, Lost{level.number, at, "cannot be loaded"}));
    push({.at = at + 1s + level.load_time, .kind = Kind::kLoaded, .level = index});
    return;
  }
  level.loading = false;
  if (level.up) return;
  level.up = level.was_up = true;
  level.counts_from = at;
  note(step(state_, Ready{level.number, at}));
}

void TraceWorld::operate(TimePoint at) {
  const std::size_t index = random_.below(levels_.size());
  SimLevel& level = levels_[index];
  if (!level.disabled) {
    level.disabled = true;
    level.up = false;
    note(step(state_, LeftOut{level.number, at, LeftOut::Why::kDisabled, "by an operator"}));
  } else {
    level.disabled = false;
    level.loading = true;
    note(step(state_, Loading{level.number, at}));
    push({.at = at + level.load_time, .kind = Kind::kLoaded, .level = index});
  }
  push({.at = at + random_.about(60s), .kind = Kind::kOperator});
}

}  // namespace gradus::ladder
