// Bad `gradus.yaml` texts, each with every line that it must give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/config/config_test_support.h"

namespace gradus::config {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StartsWith;

struct Bad {
  std::string text;
  std::vector<std::string> faults;  // whole lines without the leading "m: "; "…" cuts the rest
};

/// One level that is right but for what `more` adds.
std::string level(const std::string& more) {
  return "levels: [{name: a, file: a.onnx, providers: [cpu], " + more + "}]";
}
std::string policy(const std::string& more) { return "policy: {" + more + "}"; }

std::vector<Bad> bad_files() {
  const std::string l0 = "levels[0].";
  return {
      // Bounds, at both ends.
      {level("max_batch_size: 8, preferred_batch_sizes: [4, 2]"),
       {l0 + "preferred_batch_sizes[1] = 2: must be in [5, 8]"}},
      {level("max_batch_size: 8, preferred_batch_sizes: [16]"),
       {l0 + "preferred_batch_sizes[0] = 16: must be in [1, 8]"}},
      {level("max_queue_delay_us: 10000001"),
       {l0 + "max_queue_delay_us = 10000001: must be in [0, 10000000]"}},
      {level("max_padding_waste: 1.5"), {l0 + "max_padding_waste = 1.5: must be in [0, 1]"}},
      {level("max_batch_size: 0"), {l0 + "max_batch_size = 0: must be in [1, 1024]"}},
      {level("max_batch_size: 1025"), {l0 + "max_batch_size = 1025: must be in [1, 1024]"}},
      {level("max_batch_size: -1"), {l0 + "max_batch_size = -1: must be in [1, 1024]"}},
      {level("max_batch_size: 99999999999999999999"),
       {l0 + "max_batch_size = 99999999999999999999: must be in [1, 1024]"}},
      {level("target_p99_ms: 0"), {l0 + "target_p99_ms = 0: must be in [1, 3600000]"}},
      {level("threads: 257"), {l0 + "threads = 257: must be in [1, 256]"}},
      {level("inter_op_threads: -1"), {l0 + "inter_op_threads = -1: must be in [0, 256]"}},
      {level("inter_op_threads: 257"), {l0 + "inter_op_threads = 257: must be in [0, 256]"}},
      {level("instances: -1"), {l0 + "instances = -1: must be in [0, 256]"}},
      {level("quality: 1.01"), {l0 + "quality = 1.01: must be in [0, 1]"}},
      {level("level: 8"), {l0 + "level = 8: must be in [0, 7]"}},
      {level("device_ids: [0, 256]"), {l0 + "device_ids[1] = 256: must be in [0, 255]"}},
      {level("device_ids: [1, 1]"), {l0 + "device_ids[1] = 1: must be named once"}},
      {"default_timeout_ms: 0", {"default_timeout_ms = 0: must be in [1, 86400000]"}},
      {policy("error_rate: 0"), {"policy.error_rate = 0: must be in (0, 1]"}},
      {policy("error_rate: 1.5"), {"policy.error_rate = 1.5: must be in (0, 1]"}},
      {policy("slow_factor: 0.5"), {"policy.slow_factor = 0.5: must be in [1, 100]"}},
      {policy("cooldown_ms: -1"), {"policy.cooldown_ms = -1: must be in [0, 86400000]"}},
      // Types.
      {level("max_batch_size: many"),
       {l0 + "max_batch_size = many: must be an integer in [1, 1024]"}},
      {level("max_batch_size: 8.0"),
       {l0 + "max_batch_size = 8.0: must be an integer in [1, 1024]"}},
      {level("max_batch_size: 0x10"),
       {l0 + "max_batch_size = 0x10: must be an integer in [1, 1024]"}},
      {level("max_batch_size: \"8\""),
       {l0 + "max_batch_size = \"8\": must be an integer in [1, 1024]"}},
      {level("max_batch_size: [8]"),
       {l0 + "max_batch_size = [8]: must be an integer in [1, 1024]"}},
      {level("max_batch_size:"), {l0 + "max_batch_size = null: must be an integer in [1, 1024]"}},
      {level("quality: .nan"), {l0 + "quality = .nan: must be a number in [0, 1]"}},
      {level("quality: nan"), {l0 + "quality = nan: must be a number in [0, 1]"}},
      {level("quality: high"), {l0 + "quality = high: must be a number in [0, 1]"}},
      {level("allow_software_gpu: yes"), {l0 + "allow_software_gpu = yes: must be true or false"}},
      {level("allow_software_gpu: 1"), {l0 + "allow_software_gpu = 1: must be true or false"}},
      {level("check_outputs: infinite"), {l0 + "check_outputs = infinite: must be none or finite"}},
      {level("execution_mode: 1"), {l0 + "execution_mode = 1: must be sequential or parallel"}},
      {level("keep: {always: true}"), {l0 + "keep = {...}: must be auto or always"}},
      {level("device_ids: 0"), {l0 + "device_ids = 0: must be a list of integers in [0, 255]"}},
      {"levels: {gpu: {}}", {"levels = {...}: must be a list of 1 to 8 levels"}},
      {"pad: [tokens]", {"pad = [tokens]: must be a map of input names to numbers"}},
      {"pad: {tokens: x}", {"pad.tokens = x: must be a number in [-1e+300, 1e+300]"}},
      {"priority_levels: -1", {"priority_levels = -1: must be in [0, 1000000]"}},
      {"default_priority: 1000001", {"default_priority = 1000001: must be in [0, 1000000]"}},
      {"version_policy: newest",
       {"version_policy = newest: must be all, {latest: N} or {specific: [versions]}"}},
      {"version_policy: {latest: 1, specific: [1]}", {"version_policy = {...}: must be all, …"}},
      {"version_policy: {specific: []}", {"version_policy = {...}: must be all, …"}},
      {"version_policy: {latest: 0}", {"version_policy.latest = 0: must be in [1, 1000000]"}},
      {"version_policy: {specific: [1, 0]}",
       {"version_policy.specific[1] = 0: must be in [1, 9223372036854775807]"}},
      {"levels: [gpu]", {"levels[0] = gpu: must be a map of keys"}},
      {"policy: fast", {"policy = fast: must be a map of keys"}},
      {"default_levels: [gpu]", {"default_levels = [gpu]: must be a map of default levels' names"}},
      {"queue_policies: [1]",
       {"queue_policies = [1]: must be a map of `default` and priorities in [1, 1000000] to maps "
        "of "
        "keys"}},
      {"queue_policies: {0: {}, 01: {}, all: {}, 1000001: {}, -1: {}}",
       {"queue_policies.0: must be `default` or a priority in [1, 1000000]",
        "queue_policies.01: must be `default` or a priority in [1, 1000000]",
        "queue_policies.all: must be `default` or a priority in [1, 1000000]",
        "queue_policies.1000001: must be `default` or a priority in [1, 1000000]",
        "queue_policies.-1: must be `default` or a priority in [1, 1000000]"}},
      {"queue_policies: {2: {timeout_us: 86400000001, max_queue_size: -1}}",
       {"queue_policies.2.timeout_us = 86400000001: must be in [0, 86400000000]",
        "queue_policies.2.max_queue_size = -1: must be in [0, 1000000]"}},
      {"queue_policies: {default: {timeout_action: DELAY, allow_timeout_override: 1}}",
       {"queue_policies.default.timeout_action = DELAY: must be reject or delay",
        "queue_policies.default.allow_timeout_override = 1: must be true or false"}},
      {"{priority_levels: 2, default_priority: 3, queue_policies: {2: {}, 3: {}, 4: {}}}",
       {"default_priority = 3: must be at most priority_levels = 2",
        "queue_policies.3: must be at most priority_levels = 2",
        "queue_policies.4: must be at most priority_levels = 2"}},
      {"{default_priority: 9, queue_policies: {3: {}, 4: {}}}",
       {"queue_policies.4: must be at most 3, without priority_levels"}},
      {"default_timeout_ms: 10s",
       {"default_timeout_ms = 10s: must be an integer in [1, 86400000]"}},
      // Names of keys.
      {"polcy: {}", {"polcy: unknown key; did you mean policy?"}},
      {"zebra: 1",
       {"zebra: unknown key; known: default_levels, levels, default_timeout_ms, admission, "
        "max_queue_size, "
        "priority_levels, default_priority, queue_policies, version_policy, pad, policy"}},
      {level("max_bach_size: 4"),
       {l0 + "max_bach_size: unknown key; did you mean max_batch_size?"}},
      {policy("hold: 5"), {"policy.hold: unknown key; did you mean hold_ms?"}},
      {"<<: {a: 1}", {"<<: unknown key; known: default_levels, …"}},
      {"\"odd\\nkey\": 1", {"\"odd\\nkey\": unknown key; known: default_levels, …"}},
      {"default_levels: {cpu-int4: {}}",
       {"default_levels.cpu-int4: unknown key; did you mean cpu-int8?"}},
      {"default_levels: {gpu: {file: a.onnx}}", {"default_levels.gpu.file: unknown key; …"}},
      {"[a]: 1", {"a key in line 1 is no plain word"}},
      {"policy: {hold_ms: 1000}\npolicy: {}", {"policy: given twice, in lines 1 and 2"}},
      {"policy:\n  hold_ms: 1000\n\n  hold_ms: 2000",
       {"policy.hold_ms: given twice, in lines 2 and 4"}},
      // The ladder as a whole.
      {"levels: []", {"levels: holds 0 levels: must hold 1 to 8"}},
      {"levels: [{}, {}, {}, {}, {}, {}, {}, {}, {}]",
       {"levels: holds 9 levels: must hold 1 to 8"}},
      {"levels:", {"levels = null: must be a list of 1 to 8 levels"}},
      {"levels: [{}]",
       {l0 + "name: missing: must be a name of at most 64 letters, digits and _-.",
        l0 + "file: missing: must be a plain file name, without / or ..",
        l0 + "providers: missing: must be a list of at least one provider"}},
      {"levels:\n- {name: a, file: a, providers: cpu}\n- {name: a, file: b, providers: cpu}",
       {"levels[1].name = \"a\": must differ from the other levels'"}},
      {"levels:\n- {level: 2, name: a, file: a, providers: cpu}\n"
       "- {level: 2, name: b, file: b, providers: cpu}",
       {"levels[1].level = 2: must be over 2, the level before it"}},
      {"levels:\n- {level: 7, name: a, file: a, providers: cpu}\n"
       "- {name: b, file: b, providers: cpu}",
       {"levels[1].level: missing: one more than the level before it is over 7"}},
      {"{default_levels: {gpu: {threads: 2}}, " + level("threads: 1") + "}",
       {"default_levels: cannot stand beside levels, which is the whole ladder"}},
      // Files and names.
      {"levels: [{name: a, file: ../a.onnx, providers: cpu}]",
       {l0 + "file = ../a.onnx: must be a plain file name, without / or .."}},
      {"levels: [{name: a, file: /etc/a, providers: cpu}]",
       {l0 + "file = /etc/a: must be a plain file name, without / or .."}},
      {"levels: [{name: a, file: .., providers: cpu}]",
       {l0 + "file = ..: must be a plain file name, without / or .."}},
      {"levels: [{name: a, file: \"\", providers: cpu}]",
       {l0 + "file = \"\": must be a plain file name, without / or .."}},
      {"levels: [{name: a, file: \"a\\0b\", providers: cpu}]",
       {l0 + "file = \"a\\u0000b\": must be a plain file name, without / or .."}},
      {"levels: [{name: a b, file: a, providers: cpu}]",
       {l0 + "name = \"a b\": must be a name of at most 64 letters, digits and _-."}},
      // Providers.
      {"levels: [{name: a, file: a, providers: []}]",
       {l0 + "providers = []: must be a list of at least one provider"}},
      {"levels: [{name: a, file: a, providers: {cuda: {}}}]",
       {l0 + "providers = {...}: must be a list of at least one provider"}},
      {"levels: [{name: a, file: a, providers: [cuda, cdua]}]",
       {l0 + "providers[1]: unknown provider \"cdua\"; known: Tensorrt…"}},
      {"levels: [{name: a, file: a, providers: cdua}]",
       {l0 + "providers: unknown provider \"cdua\"; known: Tensorrt…"}},
      {"levels: [{name: a, file: a, providers: [cuda, CUDA]}]",
       {l0 + "providers[1]: CUDAExecutionProvider is named twice"}},
      {"levels: [{name: a, file: a, providers: [{cuda: {}, cpu: {}}]}]",
       {l0 + "providers[0] = {...}: must be a provider's name or one name with a map of options"}},
      {"levels: [{name: a, file: a, providers: [{cuda: 1}]}]",
       {l0 + "providers[0].cuda = 1: must be a map of options"}},
      {"levels: [{name: a, file: a, providers: [{cuda: {x: [1]}}]}]",
       {l0 + "providers[0].cuda.x = [1]: must be a text or number"}},
      // Thresholds against each other.
      {policy("hold_ms: 700000"),
       {"policy.hold_ms = 700000: must be at most hold_cap_ms = 600000"}},
      {policy("canary_first_share: 0.5"),
       {"policy.canary_first_share = 0.5: must be at most canary_second_share = 0.25"}},
      {policy("canary_stage_max_ms: 1000"),
       {"policy.canary_stage_min_ms = 5000: must be at most canary_stage_max_ms = 1000"}},
      {policy("slow_samples: 2"), {"policy.slow_count = 3: must be at most slow_samples = 2"}},
      {policy("window_runs: 15"), {"policy.slow_samples = 20: must be at most window_runs = 15"}},
      {policy("window_runs: 9, slow_samples: 9"),
       {"policy.error_rate_outcomes = 10: must be at most window_runs = 9"}},
      {policy("hold_ms: 500"), {"policy.probe_every_ms = 1000: must be at most hold_ms = 500"}},
      // No YAML at all.
      {"levels: [", {"line 1, column 1: no valid YAML: end of sequence flow not found"}},
      {"policy:\n  hold_ms: 1\n cooldown_ms: 2", {"line 3, column 2: no valid YAML: …"}},
      {"policy: \"\\\r\"", {"line 1, column 12: no valid YAML: unknown escape character: \\r"}},
      {"policy: *nowhere", {"line 1, column 9: no valid YAML: …"}},
      {"a: b: c", {"line 1, column 5: no valid YAML: …"}},
      {"# é\npolicy: {hold_ms: \xff}", {"line 2: no valid UTF-8"}},
      {"policy: {}\n---\npolicy: {}",
       {"holds more than one YAML document, or text outside of any"}},
      {",a: 1", {"holds more than one YAML document, or text outside of any"}},
  };
}

TEST(Refusal, EveryBadFileGivesExactlyItsLines) {
  const std::vector<Bad> files = bad_files();
  for (const Bad& bad : files) {
    const Faults faults = faults_of(bad.text);
    std::vector<testing::Matcher<std::string>> expected;
    for (const std::string& line : bad.faults) {
      const std::size_t cut = line.find("…");
      if (cut == std::string::npos) {
        expected.push_back(testing::Eq("m: " + line));
      } else {
        expected.push_back(StartsWith("m: " + line.substr(0, cut)));
      }
    }
    EXPECT_THAT(faults, ElementsAreArray(expected)) << bad.text;
  }
}

TEST(Refusal, TellsEveryFaultOfAFileAtOnce) {
  EXPECT_THAT(
      faults_of(R"(
polcy: {}
default_timeout_ms: 0
default_timeout_ms: 5
levels:
  - {name: a, file: a/b, providers: [cpu, nope], max_batch_size: 0}
  - {name: a, file: b, threads: x}
policy: {hold_ms: 700000, error_rate_outcomes: 2000}
)"),
      ElementsAre("m: default_timeout_ms: given twice, in lines 3 and 4",
                  "m: polcy: unknown key; did you mean policy?",
                  "m: levels[0].file = a/b: must be a plain file name, without / or ..",
                  StartsWith("m: levels[0].providers[1]: unknown provider \"nope\""),
                  "m: levels[0].max_batch_size = 0: must be in [1, 1024]",
                  "m: levels[1].providers: missing: must be a list of at least one provider",
                  "m: levels[1].threads = x: must be an integer in [1, 256]",
                  "m: levels[1].name = \"a\": must differ from the other levels'",
                  "m: default_timeout_ms = 0: must be in [1, 86400000]",
                  "m: policy.error_rate_outcomes = 2000: must be at most window_runs = "
                  "1000",
                  "m: policy.hold_ms = 700000: must be at most hold_cap_ms = 600000"));
}

TEST(Refusal, LongAndOddValuesAreShownShortAndOnOneLine) {
  const Faults faults = faults_of("default_timeout_ms: \"a\\nb" + std::string(5000, 'x') + "\"");
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_LT(faults[0].size(), 200u);
  EXPECT_THAT(faults[0], HasSubstr("= \"a\\nbxxx"));
  EXPECT_LT(lines(faults_of(std::string(5000, 'k') + ": 1")).size(), 300u);
}

TEST(Refusal, BoundsAliasesThatGrowWithoutEnd) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 8; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  EXPECT_THAT(faults_of(bomb), ElementsAre(HasSubstr("must have at most 10000 values")));
  EXPECT_THAT(faults_of("policy: &p {hold_ms: *p}"), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(faults_of(std::string(100'000, '[')), testing::SizeIs(1));
  EXPECT_THAT(faults_of(std::string(200, '[') + std::string(200, ']')), testing::SizeIs(1));
}

}  // namespace
}  // namespace gradus::config
