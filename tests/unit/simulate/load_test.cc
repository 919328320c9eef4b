#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "simulate/load.h"

namespace gradus::simulate {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kWhole = R"(
duration_s: 60
deadline_ms: 250
seed: 9
devices: {gpu: 2, cpu: 8}
levels:
  - {name: gpu, device: gpu, mean_ms: 8, p99_ms: 14.5, target_p99_ms: 50, max_batch_size: 16,
     each_more: 0.1, first_ms: 900, wake_ms: 30, max_run_ms: 2000}
  - {name: cpu, mean_ms: 80, target_p99_ms: 800, quality: 0.98}
arrivals:
  rate: 40
  steps: [{at_s: 20, rate: 100}, {at_s: 40, rate: 40}]
  burst_every_s: 10
  burst_size: 25
  shapes: 3
faults:
  - {level: 0, what: slow, factor: 5, at_s: 10, for_s: 5, every_s: 15, times: 2}
  - {what: errors, share: 0.2, at_s: 50.5, for_s: 1}
)";

config::Faults faults_of(std::string_view text) {
  const auto scenario = parse_scenario(text, "s.yaml");
  return scenario ? config::Faults{} : scenario.error();
}

/// A small scenario with more lines.
std::string with(std::string_view lines) {
  return "levels: [{name: cpu, mean_ms: 10, target_p99_ms: 50}]\n" + std::string(lines) + "\n";
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gradus-sim-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no scratch folder";
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const char* name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

TEST(Scenarios, AreReadWhole) {
  const auto scenario = parse_scenario(kWhole, "a/loss.yaml");
  ASSERT_TRUE(scenario) << scenario.error().front();
  EXPECT_EQ(scenario->name, "loss");
  EXPECT_EQ(scenario->lasts, 60s);
  EXPECT_EQ(scenario->deadline, 250ms);
  EXPECT_EQ(scenario->seed, 9U);
  ASSERT_EQ(scenario->devices.size(), 2U);
  EXPECT_EQ(scenario->devices[0].instances, 2U);
  ASSERT_EQ(scenario->levels.size(), 2U);
  EXPECT_EQ(p99_of(scenario->levels[0]), 14500us);
  EXPECT_EQ(scenario->levels[0].first, 900ms);
  EXPECT_EQ(hang_limit(scenario->levels[0]), 2s);
  EXPECT_EQ(p99_of(scenario->levels[1]), 120ms);
  EXPECT_EQ(hang_limit(scenario->levels[1]), 8s);
  EXPECT_EQ(scenario->levels[1].quality, 0.98);
  ASSERT_EQ(scenario->arrivals.rates.size(), 3U);
  EXPECT_EQ(scenario->arrivals.rates[1].at, 20s);
  EXPECT_EQ(scenario->arrivals.burst_size, 25U);
  ASSERT_EQ(scenario->faults.size(), 2U);
  EXPECT_EQ(scenario->faults[0].every, 15s);
  EXPECT_EQ(scenario->faults[1].at, 50500ms);
}

TEST(Scenarios, EveryFaultIsToldWithItsKey) {
  EXPECT_THAT(faults_of(with("arrivals: {rate: 5}\ndeadline: 5\nseed: -1")),
              ElementsAre(HasSubstr("s.yaml: deadline: unknown key; did you mean deadline_ms?"),
                          HasSubstr("s.yaml: seed = -1: must be in [0, ")));
  EXPECT_THAT(faults_of("levels: [{name: cpu, mean_ms: 0, target_p99_ms: x}]\narrivals: {rate: 1}"),
              ElementsAre(HasSubstr("levels[0].mean_ms = 0: must be in (0, "),
                          HasSubstr("levels[0].target_p99_ms = x: must be a number")));
  EXPECT_THAT(faults_of(with("arrivals: {rate: 5}\nfaults: [{what: burn, at_s: 1, for_s: 1}]")),
              ElementsAre(HasSubstr(
                  "faults[0].what = burn: must be lost, hang, slow, errors or alternating")));
  EXPECT_THAT(
      faults_of(with("arrivals: {rate: 5}\nfaults: [{what: lost, at_s: 1, for_s: 5, every_s: 5}, "
                     "{level: 1, what: lost, at_s: 1, for_s: 5}]")),
      ElementsAre(HasSubstr("faults[0].every_s = 5: must be over for_s"),
                  HasSubstr("faults[1].level = 1: must be under the number of levels, 1")));
  EXPECT_THAT(
      faults_of("levels: [{name: a, device: tpu, mean_ms: 9, p99_ms: 8, target_p99_ms: 9}]\n"
                "arrivals: {rate: 5}"),
      ElementsAre(HasSubstr("levels[0].device = tpu: must be one of devices"),
                  HasSubstr("levels[0].p99_ms = 8: must be in [mean_ms, 14 x mean_ms]")));
  EXPECT_THAT(faults_of("arrivals: {steps: [{at_s: 9, rate: 1}, {at_s: 5, rate: 1}]}"),
              ElementsAre(HasSubstr("levels: missing"), HasSubstr("at_s must ascend")));
  EXPECT_THAT(faults_of(with("arrivals: {}")), ElementsAre(HasSubstr("bring about 0 requests")));
  EXPECT_THAT(faults_of("levels: []\narrivals: {rate: 5}"),
              ElementsAre(HasSubstr("levels: holds 0 levels: must hold 1 to 8")));
}

TEST(Scenarios, TakeArrivalsFromACsvBesideThem) {
  const Folder folder;
  folder.write("requests.csv", "seconds,deadline_ms\n0.5\n1.25, 80\r\n1.25\n");
  const auto path = folder.write("s.yaml", with("arrivals: {csv: requests.csv}"));
  const auto scenario = load_scenario(path);
  ASSERT_TRUE(scenario) << scenario.error().front();
  ASSERT_EQ(scenario->arrivals.recorded.size(), 3U);
  EXPECT_EQ(scenario->arrivals.recorded[1].at, 1250ms);
  EXPECT_EQ(scenario->arrivals.recorded[1].deadline, 80ms);
  EXPECT_GT(scenario->lasts, 1250ms);  // the last one is within

  for (const char* line : {"0.4", "x", "1,0", "1,y", "-1", "1;2"}) {
    folder.write("requests.csv", "0.5\n" + std::string(line) + "\n");
    const auto broken = load_scenario(path);
    ASSERT_FALSE(broken) << line;
    EXPECT_THAT(broken.error(), ElementsAre(HasSubstr("requests.csv:2 = " + std::string(line))));
  }
  std::filesystem::remove(path.parent_path() / "requests.csv");
  EXPECT_THAT(load_scenario(path).error(),
              ElementsAre(testing::AllOf(HasSubstr("arrivals.csv"), HasSubstr("cannot be read"))));
}

TEST(Policies, AreReadFromAFileOfTheirOwnOrFromAModels) {
  const Folder folder;
  const auto own = load_policy(folder.write("p.yaml", "hold_ms: 5000\ncooldown_ms: 1000\n"));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->hold, 5s);
  const auto model = load_policy(
      folder.write("gradus.yaml", "default_timeout_ms: 100\npolicy: {hold_ms: 7000}\n"));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->hold, 7s);
  EXPECT_THAT(load_policy(folder.write("p.yaml", "policy: {hold: 5}")).error(),
              ElementsAre(HasSubstr("policy.hold: unknown key")));
  EXPECT_THAT(load_policy(folder.write("p.yaml", "hold_ms: 9000000")).error(),
              ElementsAre(HasSubstr("hold_ms = 9000000: must be at most hold_cap_ms = 600000")));
}

}  // namespace
}  // namespace gradus::simulate
