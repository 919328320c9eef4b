// Policies, round trips, and files on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "config/tables.h"
#include "unit/config/config_test_support.h"

namespace gradus::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

/// Stands for a value of any type in a braced list.
struct Anything {
  template <class T>
  operator T() const;
};

template <class S, class... Members>
constexpr std::size_t member_count() {
  if constexpr (requires { S{Members{}..., Anything{}}; }) {
    return member_count<S, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

TEST(PolicyTable, HasARowForEveryThreshold) {
  EXPECT_EQ(policy_fields().size(), member_count<PolicyConfig>());
}

TEST(PolicyTable, EveryRowReadsAndPrintsItsOwnThreshold) {
  // Each row alone is set to another value: exactly one printed line may change, to that value.
  const Value fresh = show_fields(policy_fields(), PolicyConfig{});
  for (const Field<PolicyConfig>& field : policy_fields()) {
    const bool is_share = field.must.ends_with(", 1]");
    const bool is_factor = field.must.starts_with("a number in [");
    const std::string other = is_share ? "0.015625" : is_factor ? "7.5" : "17";
    PolicyConfig policy;
    Faults faults;
    Reader reader("m", faults);
    field.read(Value::plain(other), reader, policy);
    EXPECT_THAT(faults, testing::IsEmpty()) << field.key;
    const Value changed = show_fields(policy_fields(), policy);
    for (std::size_t i = 0; i < fresh.keys.size(); ++i) {
      EXPECT_EQ(changed.items[i].text, fresh.keys[i] == field.key ? other : fresh.items[i].text)
          << field.key << " and " << fresh.keys[i];
    }
  }
}

TEST(Isolation, IsAProcessForGpuLevelsUnlessTheModelSaysOtherwise) {
  const ModelConfig config = loaded(
      "levels:\n"
      "  - {name: a, file: a.onnx, providers: [CUDA, CPU]}\n"
      "  - {name: b, file: a.onnx, providers: [CPU]}\n"
      "  - {name: c, file: a.onnx, providers: [CUDA], isolation: none}\n"
      "  - {name: d, file: a.onnx, providers: [CPU], isolation: process}\n");
  std::vector<bool> isolated;
  for (const LevelConfig& level : config.levels) isolated.push_back(is_isolated(level));
  EXPECT_THAT(isolated, ElementsAre(true, false, false, true));
}

TEST(Policy, IsReadInMilliseconds) {
  const ModelConfig config = loaded("policy: {hold_ms: 200, probe_every_ms: 50, error_rate: 0.5}");
  EXPECT_EQ(config.policy.hold, 200ms);
  EXPECT_EQ(config.policy.probe_every, 50ms);
  EXPECT_EQ(config.policy.error_rate, 0.5);
  EXPECT_EQ(config.policy.cooldown, PolicyConfig{}.cooldown);
}

TEST(Policy, ASectionWithEveryLineCommentedOutChangesNothing) {
  EXPECT_EQ(loaded("policy:\n  # hold_ms: 1\ndefault_levels:\n"), loaded(""));
}

class RoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, PrintedModelsLoadToTheSameValues) {
  for (const ServerConfig& server :
       {ServerConfig{}, with_providers({"CPUExecutionProvider"}),
        with_providers(
            {"CPUExecutionProvider", "WebGpuExecutionProvider", "CUDAExecutionProvider"})}) {
    const ModelConfig config = loaded(GetParam(), server);
    const std::string text = printed(config);
    EXPECT_EQ(loaded(text, server), config) << text;
    EXPECT_EQ(printed(loaded(text, server)), text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RoundTrip,
    testing::Values(
        "", "{version_policy: all, default_priority: 3}", "version_policy: {latest: 2}",
        "version_policy: {specific: [3, 1, 3]}",
        "{priority_levels: 1000000, queue_policies: {3: {timeout_us: 1, timeout_action: delay}, "
        "default: {allow_timeout_override: false, max_queue_size: 2}, 1000000: {}}}",
        "{default_timeout_ms: 1, policy: {error_rate: 0.1, slow_share: 1e-9, slow_factor: 2.25}}",
        "default_levels: {gpu: {allow_software_gpu: true}, cpu: {quality: 0.30000000000000004}}",
        R"(levels:
  - name: "true"
    file: "it's #1: a \"model\" é.onnx"
    providers:
      - cuda: {a: 1, b: "two: words", "odd key": "", c: "no", d: "\t\n"}
      - webgpu
      - cpu
    device_ids: [3, 0]
  - {level: 6, name: "12", file: null.onnx, providers: openvino, check_outputs: finite}
)"));

TEST(Printing, ShowsWhatTheProviderListExcludes) {
  const std::string text =
      printed(loaded("levels: [{name: a, file: a.onnx, providers: [cuda, cpu]}]",
                     with_providers({"CPUExecutionProvider"})));
  EXPECT_THAT(text, HasSubstr("    providers: [CPUExecutionProvider, CUDAExecutionProvider]"
                              "  # excluded by --providers: CUDAExecutionProvider\n"));
}

TEST(ModelFile, IsReadFromTheModelsFolder) {
  const ScratchFile file("default_timeout_ms: 1234\n");
  const auto config = load_model_config(file.folder(), kAllFiles, {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->default_timeout, 1234ms);
}

TEST(ModelFile, LiesOverItsBase) {
  const ScratchFile file("max_queue_size: 3\ndefault_levels: {cpu: {threads: 3}}\n");
  const Base base{.change =
                      [](ModelConfig& config) {
                        config.max_queue_size = 1;
                        config.default_timeout = 1ms;
                        for (LevelConfig& level : config.levels) level.threads = 1;
                        config.levels[0].instances = 4;
                      },
                  .yaml = "{max_queue_size: 2, default_timeout_ms: 2, admission: false}",
                  .shown_name = "base"};
  const auto config = load_model_config(file.folder(), kAllFiles, {}, base);
  ASSERT_TRUE(config) << lines(config.error());
  EXPECT_EQ(config->max_queue_size, 3u) << "the file over its base";
  EXPECT_EQ(config->default_timeout, 2ms) << "the base's keys over its change of the defaults";
  EXPECT_EQ(config->levels[0].instances, 4) << "a change of the default ladder";
  EXPECT_EQ(config->levels[1].threads, 3);
  EXPECT_THAT(load_model_config(file.folder(), kAllFiles, {}, {{}, "a: 1", "base"}).error(),
              ElementsAre(StartsWith("base: a: unknown key")));
}

TEST(ModelFile, ChangesAKeyOfAQueuePolicyAndLeavesTheOthers) {
  const ScratchFile file("queue_policies: {1: {max_queue_size: 9}, 2: {max_queue_size: 4}}\n");
  const QueuePolicy delays{.timeout = 5us, .timeout_action = TimeoutAction::kDelay};
  const Base base{.change =
                      [&](ModelConfig& config) {
                        config.queue_policies = {.usual = delays, .by_priority = {{1, delays}}};
                      },
                  .yaml = {},
                  .shown_name = {}};
  const auto config = load_model_config(file.folder(), kAllFiles, {}, base);
  ASSERT_TRUE(config) << lines(config.error());
  QueuePolicy first = delays;
  first.max_queue_size = 9;
  EXPECT_EQ(config->queue_policies.of(1), first);
  EXPECT_EQ(config->queue_policies.of(2), (QueuePolicy{.max_queue_size = 4})) << "a whole one";
  EXPECT_EQ(config->queue_policies.of(3), delays) << "the default one";
}

TEST(ModelFile, MayBeMissing) {
  const ScratchFile file("", "other");
  const auto config = load_model_config(file.folder(), kAllFiles, {});
  ASSERT_TRUE(config);
  EXPECT_EQ(*config, loaded(""));
}

TEST(ModelFile, FaultsNameItsPath) {
  const ScratchFile file("threads: 1\npolicy: {hold_ms: 0}\n");
  const auto config = load_model_config(file.folder(), kAllFiles, {});
  ASSERT_FALSE(config);
  const std::string path = file.path().string();
  EXPECT_THAT(config.error(), ElementsAre(StartsWith(path + ": threads: unknown key"),
                                          path + ": policy.hold_ms = 0: must be in [1, 86400000]"));
  EXPECT_EQ(to_error(config.error()).code, Code::kInvalid);
  EXPECT_THAT(to_error(config.error()).message, HasSubstr("; " + path + ": policy.hold_ms"));
}

TEST(ModelFile, ThatCannotBeReadIsAFault) {
  const ScratchFile file("", "other");
  const std::filesystem::path path = file.folder() / "gradus.yaml";
  std::filesystem::create_symlink("nowhere", path);
  EXPECT_THAT(load_model_config(file.folder(), kAllFiles, {}).error(),
              ElementsAre(path.string() + ": cannot be read: No such file or directory"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(load_model_config(file.folder(), kAllFiles, {}).error(),
              ElementsAre(path.string() + ": cannot be read: Is a directory"));
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(load_model_config(file.folder(), kAllFiles, {}).error(),
              ElementsAre(path.string() + ": cannot be read: must be a regular file"))
      << "a FIFO, whose reader would wait for good";
}

TEST(ModelFile, ThatIsMissingIsNotNamedForAVersionWithoutLevels) {
  const ScratchFile file("", "other");
  const std::filesystem::path version = file.folder() / "7";
  EXPECT_THAT(load_model_config(file.folder(), find_variants(version), {}).error(),
              ElementsAre(StartsWith(version.string() + ": no level: ")));
}

TEST(ModelFile, OfMoreThanAMebibyteIsRefused) {
  const ScratchFile file("#" + std::string(1 << 20, 'x') + "\n");
  EXPECT_THAT(load_model_config(file.folder(), kAllFiles, {}).error(),
              ElementsAre(HasSubstr("too long: must hold at most 1048576 bytes")));
}

}  // namespace
}  // namespace gradus::config
