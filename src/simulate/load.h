// Scenarios and policies from files: YAML by the rules of config (unknown keys are faults, every
// fault is told at once), arrivals from CSV. docs/simulation.md has the keys.
#pragma once
#include <filesystem>
#include <string_view>

#include "config/faults.h"
#include "config/policy_config.h"
#include "simulate/scenario.h"

namespace gradus::simulate {

/// @param path of the YAML file; its name is the scenario's, and a CSV is looked for beside it
config::Loaded<Scenario> load_scenario(const std::filesystem::path& path);
/// The same from text.
config::Loaded<Scenario> parse_scenario(std::string_view text, const std::filesystem::path& path);

/// The keys of `policy:` in `gradus.yaml`, either by themselves or below `policy:`.
config::Loaded<config::PolicyConfig> load_policy(const std::filesystem::path& path);

}  // namespace gradus::simulate
