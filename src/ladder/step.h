// The policy as one state machine: each event changes the state and may make one transition
// (docs/policy.md). Same state and same events give the same transitions.
//
//   driver                 ladder
//   Ready, Lost, … ----->  condition of a level; the current level leaves at once when it is lost
//   Outcome, Probe ----->  window, breaker, hold; failures move down, completed holds move up
//   Tick           ----->  cooldowns end, slowness and overload are weighed
#pragma once
#include <optional>

#include "ladder/events.h"
#include "ladder/state.h"

namespace gradus::ladder {

std::optional<Transition> step(State& state, const Ready& event);
std::optional<Transition> step(State& state, const Loading& event);
std::optional<Transition> step(State& state, const Lost& event);
std::optional<Transition> step(State& state, const LeftOut& event);
std::optional<Transition> step(State& state, const Pinned& event);
std::optional<Transition> step(State& state, const Unpinned& event);
/// For every execution: constant time, no allocation once its window and its shapes are known.
std::optional<Transition> step(State& state, const Outcome& event);
std::optional<Transition> step(State& state, const Probe& event);
std::optional<Transition> step(State& state, const Tick& event);
/// For every request: constant, allocates nothing. Counts from the next tick on.
void step(State& state, const Planned& event);
void step(State& state, const TooLate& event);
/// Counts from the next event on.
void step(State& state, const Prediction& event);

}  // namespace gradus::ladder
