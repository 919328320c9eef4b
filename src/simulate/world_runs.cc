// Runs: what a free instance takes, how it ends, how levels are lost and come back; the prober.
#include <algorithm>
#include <chrono>
#include <utility>

#include "ladder/status.h"
#include "ladder/step.h"
#include "simulate/world.h"

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRound = 200ms;      // of the prober
constexpr Duration kIdle = 2s;          // then a level sleeps
constexpr Duration kRestart = 1s;       // of a worker that hung
constexpr std::uint8_t kFirstRuns = 2;  // of a shape

}  // namespace

void World::dispatch(Lane& lane) {
  while (lane.idle() > 0) {
    LevelLane* next = nullptr;
    std::optional<std::pair<config::Tier, TimePoint>> best;
    for (LevelLane* const level : lane.levels) {
      if (level->probe_due) {
        start_probe(*level);
        if (lane.idle() == 0) return;
      }
      const auto rank = level->rank(now_);
      if (rank && (!best || *rank < *best)) {
        next = level;
        best = rank;
      }
    }
    if (next == nullptr) return;
    const std::uint32_t index = take_run();
    Run& run = runs_[index];
    std::vector<Attempt*> doomed;
    const Duration cost = next->take(run.members, doomed, now_);
    if (run.members.empty()) {
      free_run(index);
    } else {
      run.level = next;
      run.seat = lane.take_seat(now_ + cost);
      start_run(index);
    }
    for (Attempt* const attempt : doomed) {
      requests_[attempt->request].overloaded = true;
      failed(*attempt);
    }
  }
}

void World::start_run(std::uint32_t index) {
  Run& run = runs_[index];
  run.samples = static_cast<std::uint32_t>(run.members.size());
  run.queue = Duration::max();
  ++run.level->own_runs;
  run.level->running += run.samples;
  ++outcome_.executions;
  for (Attempt* const member : run.members) {
    member->run = index;
    requests_[member->request].ran = true;
    run.queue = std::min(run.queue, now_ - member->queued_at);
    if (now_ >= member->deadline) ++outcome_.expired_runs;
  }
  begin(run, index, run.members.front()->shape_number);
}

void World::start_probe(LevelLane& level) {
  level.probe_due = false;
  const std::uint32_t index = take_run();
  Run& run = runs_[index];
  run.level = &level;
  run.probe = true;
  run.samples = 1;
  run.seat = level.lane().take_seat(now_);
  begin(run, index, 0);
}

void World::begin(Run& run, std::uint32_t index, std::uint32_t shape) {
  Machine& its = machine(*run.level);
  const Level& level = run.level->level();
  const Health health = its.faults.at(since_start(now_));
  Duration takes =
      its.times.draw(its.random, health.factor * (1 + (run.samples - 1) * level.each_more));
  if (its.shapes_seen[shape] < kFirstRuns) {
    ++its.shapes_seen[shape];
    takes = std::max(takes, level.first.value_or(Duration::zero()));
  }
  if (now_ - its.busy_until >= kIdle)
    takes = std::max(takes, level.wake.value_or(Duration::zero()));
  run.begun = now_;
  run.hangs = health.hangs;
  run.ok = !health.hangs && !(health.errors > 0 && its.random.chance(health.errors));
  if (health.alternating) run.ok &= std::exchange(its.alternates, !its.alternates);
  run.ends = now_ + (health.hangs ? hang_limit(level) : takes);
  its.busy_until = std::max(its.busy_until, run.ends);
  push(run.ends, Kind::kRunEnds, index, run.life);
}

void World::end_run(std::uint32_t index) {
  Run& run = runs_[index];
  LevelLane& level = *run.level;
  if (run.hangs) return lose(level, "its worker hung and was killed", kRestart);
  level.lane().free_seat(run.seat);
  if (run.probe) {
    end_probe(run);
    free_run(index);
    return dispatch(level.lane());
  }
  if (rule_.ladder) tell_outcome(run, run.ok, false);
  if (run.ok) level.learn(size_of(run), now_ - run.begun, false, now_);
  const std::vector<Attempt*> members = std::exchange(run.members, {});
  const bool ok = run.ok;
  free_run(index);
  for (Attempt* const member : members) {
    const bool last = level.index() + 1 == levels_.size();
    const bool thrown_away =
        rule_.discards && !last && now_ - member->queued_at > level.level().target_p99;
    if (!ok || !wanted(*member) || thrown_away) {
      failed(*member);
      continue;
    }
    if (member->hedges) ++outcome_.hedges_won;
    const std::uint32_t request = member->request;
    end_attempt(*member);
    finish(request, Ending::kInTime, level.index());
  }
  dispatch(level.lane());
}

ladder::Size World::size_of(const Run& run) { return {run.samples, run.members.front()->shape}; }

void World::tell_outcome(const Run& run, bool ok, bool stopped) {
  const ladder::Size size = size_of(run);
  tell(ladder::Outcome{.level = static_cast<int>(run.level->index()),
                       .begun = run.begun,
                       .ended = now_,
                       .queue = run.queue,
                       .run = now_ - run.begun,
                       .ok = ok,
                       .bucket = size.shape ^ size.samples,
                       .stopped = stopped});
}

void World::end_probe(Run& run) {
  LevelLane& level = *run.level;
  level.probing = false;
  if (run.ok) level.probed(now_ - run.begun);
  if (!rule_.ladder) return;
  tell(ladder::Probe{
      .level = static_cast<int>(level.index()), .at = now_, .run = now_ - run.begun, .ok = run.ok});
}

// The processor ends what nobody waits for; an accelerator ends it by itself.
void World::stop_if_unwanted(std::uint32_t index) {
  Run& run = runs_[index];
  LevelLane& level = *run.level;
  if (level.level().device != "cpu" || run.hangs) return;
  if (std::ranges::any_of(run.members, [&](const Attempt* member) { return wanted(*member); })) {
    return;
  }
  // It took at least so long: that counts if it is long.
  const Duration took = now_ - run.begun;
  if (rule_.ladder && took > state_.policy.slow_factor * level.level().target_p99) {
    tell_outcome(run, true, true);
  }
  level.learn(size_of(run), took, true, now_);
  level.lane().free_seat(run.seat);
  for (Attempt* const member : run.members) end_attempt(*member);
  machine(level).busy_until = now_;
  free_run(index);
  dispatch(level.lane());
}

std::uint32_t World::take_run() {
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t index = free_runs_.back();
  free_runs_.pop_back();
  return index;
}

void World::free_run(std::uint32_t index) {
  Run& run = runs_[index];
  if (run.level != nullptr && !run.probe) {
    --run.level->own_runs;
    run.level->running -= run.samples;
  }
  run.level = nullptr;
  run.probe = false;
  run.members.clear();
  ++run.life;
  free_runs_.push_back(index);
}

void World::fault_changes(std::size_t index) {
  LevelLane& level = *levels_[index];
  Machine& its = machines_[index];
  const Health health = its.faults.at(since_start(now_));
  const Duration next = its.faults.next_change(since_start(now_));
  if (next != Duration::max() && its.changes_at != kStart + next) {
    its.changes_at = kStart + next;
    push(its.changes_at, Kind::kFault, index);
  }
  if (health.hangs) {  // what runs already never ends either
    for (std::uint32_t run = 0; run < runs_.size(); ++run) {
      if (runs_[run].level != &level || runs_[run].hangs) continue;
      runs_[run].hangs = true;
      ++runs_[run].life;
      push(runs_[run].begun + hang_limit(level.level()), Kind::kRunEnds, run, runs_[run].life);
    }
  }
  if (health.lost && level.up) return lose(level, "its device is gone", 0s);
  if (!level.up && !health.lost && !health.hangs && now_ >= its.restarts_until) bring_up(level);
}

void World::lose(LevelLane& level, const std::string& reason, Duration restart) {
  level.up = false;
  level.probe_due = level.probing = false;
  Machine& its = machine(level);
  its.busy_until = now_;
  its.restarts_until = now_ + restart;
  if (restart > 0s) push(its.restarts_until, Kind::kFault, level.index());
  if (rule_.ladder) tell(ladder::Lost{static_cast<int>(level.index()), now_, reason});

  std::vector<Attempt*> orphans;
  for (std::uint32_t index = 0; index < runs_.size(); ++index) {
    Run& run = runs_[index];
    if (run.level != &level) continue;
    level.lane().free_seat(run.seat);
    orphans.insert(orphans.end(), run.members.begin(), run.members.end());
    free_run(index);
  }
  level.drain(orphans);
  for (Attempt* const orphan : orphans) {
    requests_[orphan->request].ran = true;
    failed(*orphan);
  }
  dispatch(level.lane());
}

void World::bring_up(LevelLane& level) {
  level.up = true;
  if (rule_.ladder) tell(ladder::Ready{static_cast<int>(level.index()), now_});
}

void World::make_round() {
  push(now_ + kRound, Kind::kRound, 0);
  if (!rule_.ladder) return;
  const double rate = rate_.update(arrived_, now_);
  for (const auto& level : levels_) {
    if (!level->up) continue;
    const auto p99 = level->predicted_p99(rate, now_);
    ladder::step(state_, ladder::Prediction{static_cast<int>(level->index()), p99});
  }
  tell(ladder::Tick{now_});
  for (const auto& level : levels_) {
    if (!level->up || level->probing || now_ < level->next_probe) continue;
    if (!ladder::wants_probe(state_, static_cast<int>(level->index()), now_)) continue;
    level->probing = level->probe_due = true;
    level->next_probe = now_ + state_.policy.probe_every;
    dispatch(level->lane());
  }
}

}  // namespace gradus::simulate
