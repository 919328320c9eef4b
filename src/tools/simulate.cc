#include "tools/simulate.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "simulate/load.h"
#include "simulate/report.h"
#include "simulate/timeline.h"
#include "simulate/world.h"

namespace gradus::tools {
namespace {

namespace sim = gradus::simulate;

config::Loaded<sim::Scenario> scenario_of(const SimulateOptions& options) {
  if (options.scenario.empty() == options.trace.empty()) {
    return tl::unexpected(
        config::Faults{"give --scenario NAME (" + sim::built_in_names() + ") or --trace FILE"});
  }
  if (!options.trace.empty()) return sim::load_scenario(options.trace);
  auto built_in = sim::built_in(options.scenario);
  if (built_in) return std::move(*built_in);
  return tl::unexpected(
      config::Faults{"--scenario " + options.scenario + ": " + built_in.error().message});
}

config::Loaded<std::vector<sim::Rule>> rules_of(const SimulateOptions& options) {
  if (options.compare) return std::vector<sim::Rule>(sim::kRules.begin(), sim::kRules.end());
  const auto rule = std::ranges::find(sim::kRules, options.rule, &sim::Rule::name);
  if (rule != sim::kRules.end()) return std::vector<sim::Rule>{*rule};
  std::string names;
  for (const sim::Rule& one : sim::kRules) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return tl::unexpected(
      config::Faults{"--rule " + options.rule + ": no rule of that name; there are " + names});
}

bool write(const std::filesystem::path& path, const std::string& text, std::ostream& err) {
  if (path.empty()) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return true;
  err << "gradus simulate: " << path.string() << " cannot be written\n";
  return false;
}

}  // namespace

int simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  auto scenario = scenario_of(options);
  const auto rules = rules_of(options);
  const config::Loaded<config::PolicyConfig> policy =
      options.policy.empty() ? config::PolicyConfig{} : sim::load_policy(options.policy);
  bool good = true;
  const auto tell = [&](const auto& loaded) {
    if (loaded) return;
    good = false;
    for (const std::string& fault : loaded.error()) err << "gradus simulate: " << fault << "\n";
  };
  tell(scenario);
  tell(rules);
  tell(policy);
  if (!good) return 2;

  if (options.seed) scenario->seed = *options.seed;
  std::vector<sim::Result> results;
  for (const sim::Rule& rule : *rules) {
    results.push_back({rule, sim::World(*scenario, *policy, rule).run()});
  }
  out << sim::table(*scenario, *policy, results);
  const bool json = write(options.json, sim::json(*scenario, *policy, results), err);
  const bool svg = write(
      options.svg, sim::timeline(*scenario, results.back().outcome, policy->relapse_within), err);
  return json && svg ? 0 : 1;
}

}  // namespace gradus::tools
