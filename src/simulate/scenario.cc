#include "simulate/scenario.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;

/// A model on a GPU and four cores: the default ladder.
Scenario usual(std::string name, double rate) {
  Scenario scenario;
  scenario.name = std::move(name);
  scenario.lasts = 10min;
  scenario.deadline = 500ms;
  scenario.devices = {{"gpu", 1}, {"cpu", 4}};
  scenario.levels = {
      {.name = "gpu",
       .device = "gpu",
       .mean = 10ms,
       .p99 = 16ms,
       .max_batch_size = 8,
       .each_more = 0.1,
       .target_p99 = 50ms,
       .quality = 1},
      {.name = "cpu", .mean = 120ms, .p99 = 170ms, .target_p99 = 800ms, .quality = 1},
      {.name = "cpu-int8", .mean = 45ms, .p99 = 65ms, .target_p99 = 500ms, .quality = 0.99},
      {.name = "cpu-small", .mean = 8ms, .p99 = 12ms, .target_p99 = 200ms, .quality = 0.93}};
  scenario.arrivals.rates = {{0s, rate}};
  return scenario;
}

Scenario flapping() {
  Scenario scenario = usual("flapping", 20);
  scenario.lasts = 1h;
  scenario.faults = {{.what = Trouble::kLost, .at = 60s, .lasts = 20s, .every = 100s, .times = 0}};
  return scenario;
}

Scenario gpu_loss() {
  Scenario scenario = usual("gpu-loss", 60);
  scenario.faults = {{.what = Trouble::kLost, .at = 120s, .lasts = 180s, .times = 1}};
  return scenario;
}

Scenario gpu_slow() {
  Scenario scenario = usual("gpu-slow", 40);
  scenario.deadline = 100ms;
  scenario.faults = {{.what = Trouble::kSlow, .at = 120s, .lasts = 180s, .times = 1, .factor = 5}};
  return scenario;
}

Scenario load_step() {
  Scenario scenario = usual("load-step", 0);
  const double most = capacity(scenario, 0);
  scenario.arrivals.rates = {{0s, 0.5 * most}, {120s, 1.4 * most}, {300s, 0.5 * most}};
  return scenario;
}

struct BuiltIn {
  std::string_view name;
  Scenario (*make)();
};
constexpr std::array<BuiltIn, 4> kBuiltIn = {{{"flapping", flapping},
                                              {"gpu-loss", gpu_loss},
                                              {"gpu-slow", gpu_slow},
                                              {"load-step", load_step}}};

}  // namespace

const char* to_string(Trouble trouble) {
  switch (trouble) {
    case Trouble::kLost:
      return "lost";
    case Trouble::kHang:
      return "hang";
    case Trouble::kSlow:
      return "slow";
    case Trouble::kErrors:
      return "errors";
    case Trouble::kAlternating:
      return "alternating";
  }
  std::abort();
}

Duration p99_of(const Level& level) { return level.p99.value_or(level.mean * 3 / 2); }

Duration hang_limit(const Level& level) {
  return level.max_run.value_or(
      std::max({10 * level.target_p99, 10 * p99_of(level), Duration(1s)}));
}

double capacity(const Scenario& scenario, std::size_t index) {
  const Level& level = scenario.levels[index];
  const auto device = std::ranges::find(scenario.devices, level.device, &Device::name);
  const double batch = level.each_more < 1 ? level.max_batch_size : 1;
  const double run_s = to_ms(level.mean) / 1000 * (1 + (batch - 1) * level.each_more);
  return device->instances * batch / run_s;
}

Duration last_disturbance(const Scenario& scenario) {
  Duration last{};
  for (const Rate& rate : scenario.arrivals.rates) last = std::max(last, rate.at);
  for (const Fault& fault : scenario.faults) {
    Duration begins = fault.at;
    if (fault.every > Duration::zero() && scenario.lasts > fault.at) {
      const std::int64_t most = (scenario.lasts - fault.at - Duration(1)) / fault.every;
      const std::int64_t more =
          fault.times == 0 ? most : std::min<std::int64_t>(most, fault.times - 1);
      begins += more * fault.every;
    }
    last = std::max(last, begins + fault.lasts);
  }
  return std::min(last, scenario.lasts);
}

std::string built_in_names() {
  std::string names;
  for (const BuiltIn& one : kBuiltIn) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return names;
}

Result<Scenario> built_in(std::string_view name) {
  const auto one = std::ranges::find(kBuiltIn, name, &BuiltIn::name);
  if (one != kBuiltIn.end()) return one->make();
  return fail(Code::kInvalid, "no scenario of that name; there are " + built_in_names());
}

}  // namespace gradus::simulate
