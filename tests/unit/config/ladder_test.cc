// Which levels a folder and a provider list give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/config/config_test_support.h"

namespace gradus::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

std::vector<std::string> outline(const ModelConfig& config) {
  std::vector<std::string> rows;
  for (const LevelConfig& level : config.levels) {
    rows.push_back(std::to_string(level.level) + " " + level.name + " " + level.file);
  }
  return rows;
}

constexpr const char* kTwoLevels = R"(
levels:
  - {name: gpu, file: model.fp16.onnx, providers: [cuda, webgpu]}
  - {name: cpu, file: model.onnx, providers: [openvino, cpu]}
)";

TEST(DefaultLadder, HasFourLevelsWithTheirTargetsAndBatches) {
  const ModelConfig config = loaded("");
  EXPECT_THAT(outline(config),
              ElementsAre("0 gpu model.fp16.onnx", "1 cpu model.onnx", "2 cpu-int8 model.int8.onnx",
                          "3 cpu-small model.small.onnx"));
  std::vector<std::pair<std::chrono::milliseconds, std::uint32_t>> limits;
  for (const LevelConfig& level : config.levels) {
    limits.emplace_back(level.target_p99, level.max_batch_size);
  }
  EXPECT_THAT(limits, ElementsAre(std::pair(50ms, 32u), std::pair(800ms, 8u), std::pair(500ms, 1u),
                                  std::pair(200ms, 1u)));
  EXPECT_TRUE(config.wants_gpu);
  EXPECT_EQ(config.default_timeout, 10s);
  EXPECT_THAT(
      names_of(config.levels[0].providers),
      ElementsAre("CUDAExecutionProvider", "MIGraphXExecutionProvider", "WebGpuExecutionProvider"));
  EXPECT_THAT(names_of(config.levels[1].providers), ElementsAre("CPUExecutionProvider"));
}

TEST(DefaultLadder, HasOnlyLevelsWithAFileUnderTheirOwnNumbers) {
  EXPECT_THAT(outline(loaded("", {}, {.model = true})),
              ElementsAre("0 gpu model.onnx", "1 cpu model.onnx"));
  EXPECT_THAT(outline(loaded("", {}, {.fp16 = true})), ElementsAre("0 gpu model.fp16.onnx"));
  EXPECT_THAT(outline(loaded("", {}, {.int8 = true, .small = true})),
              ElementsAre("2 cpu-int8 model.int8.onnx", "3 cpu-small model.small.onnx"));
}

TEST(DefaultLadder, WithoutGpuProvidersInTheListWantsNoGpu) {
  const ModelConfig config = loaded("", with_providers({"CPUExecutionProvider"}));
  EXPECT_FALSE(config.wants_gpu);
  EXPECT_THAT(outline(config), ElementsAre("1 cpu model.onnx", "2 cpu-int8 model.int8.onnx",
                                           "3 cpu-small model.small.onnx"));
}

TEST(DefaultLadder, TakesEachLevelsProvidersFromTheListInItsOrder) {
  const ModelConfig config =
      loaded("", with_providers({"CPUExecutionProvider", "WebGpuExecutionProvider",
                                 "CUDAExecutionProvider", "OpenVINOExecutionProvider"}));
  EXPECT_THAT(names_of(config.levels[0].providers),
              ElementsAre("WebGpuExecutionProvider", "CUDAExecutionProvider"));
  EXPECT_THAT(names_of(config.levels[3].providers),
              ElementsAre("CPUExecutionProvider", "OpenVINOExecutionProvider"));
}

TEST(DefaultLadder, WithOnlyGpuProvidersInTheListHasOnlyTheGpuLevel) {
  const ModelConfig config = loaded("", with_providers({"CUDAExecutionProvider"}));
  EXPECT_THAT(outline(config), ElementsAre("0 gpu model.fp16.onnx"));
  EXPECT_TRUE(config.wants_gpu);
}

TEST(DefaultLadder, WithoutAnyLevelIsRefusedWithTheReason) {
  EXPECT_THAT(faults_of("", {}, {}),
              ElementsAre("m: no level: the version's folder holds no model.onnx, model.fp16.onnx, "
                          "model.int8.onnx or model.small.onnx"));
  EXPECT_THAT(faults_of("", with_providers({"CUDAExecutionProvider"}), {.int8 = true}),
              ElementsAre("m: no level: --providers leaves none for the files in the version's "
                          "folder"));
}

TEST(DefaultLevels, ChangeJustTheNamedKeysOfTheNamedLevels) {
  ModelConfig expected = loaded("");
  expected.levels[0].allow_software_gpu = true;
  expected.levels[0].target_p99 = 30ms;
  expected.levels[2].keep = Keep::kAlways;
  EXPECT_EQ(loaded("default_levels:\n  gpu: {allow_software_gpu: true, target_p99_ms: 30}\n"
                   "  cpu-int8:\n    keep: always\n"),
            expected);
}

TEST(DefaultLevels, MayNameALevelThatThisVersionLacks) {
  const VariantFiles files{.model = true};
  const char* text = "default_levels: {cpu-int8: {threads: 2}}";
  EXPECT_EQ(loaded(text, {}, files), loaded("", {}, files));
  EXPECT_THAT(faults_of("default_levels: {cpu-int8: {threads: 0}}", {}, files),
              ElementsAre("m: default_levels.cpu-int8.threads = 0: must be in [1, 256]"));
}

TEST(DefaultLevels, WithProvidersOutsideTheListAreLeftOut) {
  const ModelConfig config =
      loaded("default_levels: {gpu: {providers: [webgpu]}}",
             with_providers({"CUDAExecutionProvider", "CPUExecutionProvider"}));
  EXPECT_EQ(config.levels[0].name, "cpu");
  EXPECT_FALSE(config.wants_gpu);
}

TEST(ExplicitLadder, NumbersLevelsByPositionAfterTheLastGivenNumber) {
  const ModelConfig config = loaded(R"(
levels:
  - {name: a, file: a.onnx, providers: [cpu]}
  - {name: b, file: b.onnx, providers: [cpu], level: 4}
  - {name: c, file: c.onnx, providers: [cpu]}
)");
  EXPECT_THAT(outline(config), ElementsAre("0 a a.onnx", "4 b b.onnx", "5 c c.onnx"));
  EXPECT_FALSE(config.wants_gpu);
}

TEST(ExplicitLadder, ReadsEveryKeyOfALevel) {
  const ModelConfig config = loaded(R"(
levels:
  - level: 3
    name: best
    file: m.fp16.onnx
    providers:
      - cuda: {gpu_mem_limit: 2147483648, do_copy_in_default_stream: "1", flag: true}
      - CPU
    device_ids: [0, 2]
    max_batch_size: 64
    max_queue_delay_us: 500
    preferred_batch_sizes: [16, 64]
    max_padding_waste: 0.1
    join: always
    adaptive_batch: true
    batch_tier_share: 0.2
    target_p99_ms: 20
    threads: 2
    execution_mode: parallel
    inter_op_threads: 256
    instances: 3
    check_outputs: finite
    allow_software_gpu: true
    keep: always
    quality: 0.5
)");
  LevelConfig expected;
  expected.level = 3;
  expected.name = "best";
  expected.file = "m.fp16.onnx";
  expected.providers = {
      {"CUDAExecutionProvider",
       {{"gpu_mem_limit", "2147483648"}, {"do_copy_in_default_stream", "1"}, {"flag", "true"}}},
      {"CPUExecutionProvider", {}}};
  expected.device_ids = {0, 2};
  expected.max_batch_size = 64;
  expected.max_queue_delay = 500us;
  expected.preferred_batch_sizes = {16, 64};
  expected.max_padding_waste = 0.1;
  expected.join = Join::kAlways;
  expected.adaptive_batch = true;
  expected.batch_tier_share = 0.2;
  expected.target_p99 = 20ms;
  expected.threads = 2;
  expected.execution_mode = ExecutionMode::kParallel;
  expected.inter_op_threads = 256;
  expected.instances = 3;
  expected.check_outputs = CheckOutputs::kFinite;
  expected.allow_software_gpu = true;
  expected.keep = Keep::kAlways;
  expected.quality = 0.5;
  EXPECT_THAT(config.levels, ElementsAre(expected));
  EXPECT_TRUE(config.wants_gpu);
}

TEST(ExplicitLadder, TakesProvidersAsOneTextToo) {
  const ModelConfig config = loaded("levels: [{name: a, file: a, providers: 'webgpu; cpu'}]");
  EXPECT_THAT(names_of(config.levels[0].providers),
              ElementsAre("WebGpuExecutionProvider", "CPUExecutionProvider"));
}

TEST(ExplicitLadder, KeepsAnExcludedLevelWithItsReason) {
  const ModelConfig config = loaded(kTwoLevels, with_providers({"CPUExecutionProvider"}));
  ASSERT_THAT(outline(config), ElementsAre("0 gpu model.fp16.onnx", "1 cpu model.onnx"));
  EXPECT_THAT(config.levels[0].providers, IsEmpty());
  EXPECT_EQ(exclusion_reason(config.levels[0]),
            "excluded by --providers: CUDAExecutionProvider, WebGpuExecutionProvider");
  EXPECT_EQ(exclusion_reason(config.levels[1]), "");
  EXPECT_THAT(names_of(config.levels[1].excluded), ElementsAre("OpenVINOExecutionProvider"));
  EXPECT_FALSE(config.wants_gpu);
}

TEST(ExplicitLadder, OrdersProvidersAsTheListDoesAndKeepsTheirOptions) {
  std::vector<LevelConfig> levels(1);
  levels[0].providers = {{"CUDAExecutionProvider", {{"k", "v"}}}, {"WebGpuExecutionProvider", {}}};
  limit_providers(levels,
                  {"WebGpuExecutionProvider", "CPUExecutionProvider", "CUDAExecutionProvider"});
  EXPECT_THAT(levels[0].providers,
              ElementsAre(ProviderConfig{"WebGpuExecutionProvider", {}},
                          ProviderConfig{"CUDAExecutionProvider", {{"k", "v"}}}));
  EXPECT_THAT(levels[0].excluded, IsEmpty());
}

TEST(ExplicitLadder, MayNameProvidersThatComeAsLibraries) {
  ServerConfig server;
  const char* text = "levels: [{name: a, file: a, providers: [faulty]}]";
  EXPECT_THAT(lines(faults_of(text, server)), HasSubstr("unknown provider \"faulty\""));
  server.provider_libraries = {{"FaultyExecutionProvider", "/lib/faulty.so"}};
  EXPECT_THAT(names_of(loaded(text, server).levels[0].providers),
              ElementsAre("FaultyExecutionProvider"));
  EXPECT_TRUE(loaded(text, server).wants_gpu);
}

TEST(Variants, AreTheFilesOfAVersionsFolder) {
  const ScratchFile file("", "model.int8.onnx");
  std::filesystem::create_directory(file.folder() / "model.onnx");  // a folder is no file
  const VariantFiles found = find_variants(file.folder());
  EXPECT_TRUE(found.int8);
  EXPECT_FALSE(found.model || found.fp16 || found.small);
  EXPECT_FALSE(find_variants(file.folder() / "none").int8);
}

}  // namespace
}  // namespace gradus::config
