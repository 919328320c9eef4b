#include "simulate/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ladder/step.h"

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

std::uint64_t seed_of(const Scenario& scenario, std::size_t stream) {
  return Random(scenario.seed + 0x10001 * stream).next();
}

config::PolicyConfig policy_for(config::PolicyConfig policy, const Rule& rule) {
  // To a ladder that sees traffic for no time there is none: who qualifies is promoted at once.
  if (!rule.canary) policy.canary_stage_min = 0ms;
  return policy;
}

ladder::State make_ladder(const Scenario& scenario, const config::PolicyConfig& policy,
                          TimePoint start) {
  std::vector<ladder::LevelSpec> specs;
  for (const Level& level : scenario.levels) {
    specs.push_back({static_cast<int>(specs.size()), level.target_p99, level.device != "cpu"});
  }
  auto state = ladder::make_state(specs, policy, start);
  if (!state) {  // the scenario was checked
    std::fprintf(stderr, "scenario %s: %s\n", scenario.name.c_str(), state.error().message.c_str());
    std::abort();
  }
  return std::move(*state);
}

}  // namespace

World::World(const Scenario& scenario, const config::PolicyConfig& policy, Rule rule)
    : scenario_(scenario),
      rule_(rule),
      state_(make_ladder(scenario, policy_for(policy, rule), kStart)),
      budget_(rule.hedges ? policy.hedge_share : 0),
      arrivals_(scenario, seed_of(scenario, 0)) {
  outcome_.lasts = scenario.lasts;
  for (const Device& device : scenario.devices) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->seats.resize(device.instances);
  }
  for (std::size_t i = 0; i < scenario.levels.size(); ++i) {
    const Level& level = scenario.levels[i];
    const auto device = std::ranges::find(scenario.devices, level.device, &Device::name);
    Lane& lane = *lanes_[static_cast<std::size_t>(device - scenario.devices.begin())];
    levels_.push_back(
        std::make_unique<LevelLane>(i, level, lane, scenario.max_queue_size, rule.plans));
    lane.levels.push_back(levels_.back().get());
    machines_.push_back({.times = RunTimes(level.mean, p99_of(level)),
                         .faults = Faults(scenario, i),
                         .random = Random(seed_of(scenario, 1 + i)),
                         .busy_until = kStart,
                         .shapes_seen = std::vector<std::uint8_t>(scenario.arrivals.shapes)});
  }
}

// Every batch size is run four times; as in serving the ladder hears of the quickest level first.
void World::warm_up() {
  for (const auto& level : levels_) {
    Machine& its = machine(*level);
    for (std::uint32_t samples = 1; samples <= level->level().max_batch_size; samples *= 2) {
      const double times = 1 + (samples - 1) * level->level().each_more;
      for (int run = 0; run < 4; ++run) {
        level->warm_up({samples, 0}, its.times.draw(its.random, times));
      }
    }
    its.shapes_seen[0] = 2;
  }
  for (std::size_t i = levels_.size(); i-- > 0;) {
    tell(ladder::Ready{static_cast<int>(i), now_});
  }
  outcome_.moves.clear();  // how it starts is no news
}

Outcome World::run() {
  warm_up();
  expect_arrival();
  push(now_, Kind::kRound, 0);
  for (std::size_t i = 0; i < levels_.size(); ++i) push(now_, Kind::kFault, i);
  while (more_come_ || living_ > 0) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    handle(event);
  }
  return std::move(outcome_);
}

void World::push(TimePoint at, Kind kind, std::size_t index, std::uint32_t life) {
  events_.push({at, order_++, kind, static_cast<std::uint32_t>(index), life});
}

void World::handle(const Event& event) {
  switch (event.kind) {
    case Kind::kArrival:
      return arrive();
    case Kind::kDeadline:
      if (requests_[event.index].life == event.life) expire(event.index);
      return;
    case Kind::kHedge:
      if (requests_[event.index].life == event.life) hedge(event.index);
      return;
    case Kind::kRunEnds:
      if (runs_[event.index].life == event.life) end_run(event.index);
      return;
    case Kind::kRound:
      return make_round();
    case Kind::kFault:
      return fault_changes(event.index);
  }
  std::abort();
}

void World::expect_arrival() {
  const std::optional<Arrival> next = arrivals_.next();
  more_come_ = next.has_value();
  if (!next) return;
  arrival_ = *next;
  push(kStart + next->at, Kind::kArrival, 0);
}

template <class Told>
void World::tell(const Told& told) {
  std::optional<ladder::Transition> made = ladder::step(state_, told);
  if (!made) return;
  std::uint32_t relapses = 0;
  if (made->to) {
    const ladder::LevelState& to = state_.levels[static_cast<std::size_t>(*made->to)];
    relapses = to.relapses.count(now_, state_.policy);
  }
  outcome_.moves.push_back({since_start(now_), std::move(*made), relapses});
}

template void World::tell(const ladder::Ready&);
template void World::tell(const ladder::Lost&);
template void World::tell(const ladder::Outcome&);
template void World::tell(const ladder::Probe&);
template void World::tell(const ladder::Tick&);

}  // namespace gradus::simulate
