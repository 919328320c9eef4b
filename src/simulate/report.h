// Outcomes for people and for programs (docs/simulation.md).
#pragma once
#include <span>
#include <string>

#include "config/policy_config.h"
#include "simulate/outcome.h"
#include "simulate/rule.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

struct Result {
  Rule rule;
  Outcome outcome;
};

/// One row a rule; with one rule also the ladder's moves, at most 40 of them.
std::string table(const Scenario& scenario, const config::PolicyConfig& policy,
                  std::span<const Result> results);

/// One object for one rule; else `{"scenario": …, "rules": […]}` with one for each.
std::string json(const Scenario& scenario, const config::PolicyConfig& policy,
                 std::span<const Result> results);

}  // namespace gradus::simulate
