// What load() says of providers that cannot be used, and when it counts one as used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "fixture.h"
#include "runtime/sample_inputs.h"

namespace gradus::runtime {
namespace {

using ::testing::Contains;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;
using ::testing::StartsWith;

const std::string kFashion = demo("models/fashion/1/model.onnx");

std::string why_not(const OrtRuntime& runtime, const config::ProviderConfig& provider,
                    const std::string& file = kFashion) {
  const auto loaded = runtime.load(on({provider}, file));
  if (loaded) return "loaded";
  EXPECT_EQ(loaded.error().code, Code::kUnavailable);
  return loaded.error().message;
}

std::string temporary_file(const std::string& name, const std::string& content) {
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

bool has_openvino(const OrtRuntime& runtime) {
  const auto names = runtime.providers();
  return std::ranges::find(names, kOpenVino) != names.end();
}

TEST(OrtRuntime, IsOneAProcess) {
  auto runtime = make_runtime();
  const auto backend = load_cpu(*runtime, own_model("table.onnx"));
  runtime.reset();
  const auto second = OrtRuntime::create({});
  ASSERT_FALSE(second) << "a backend of the first one still lives";
  EXPECT_EQ(second.error().code, Code::kInternal);
}

TEST(Load, SaysWhatThisOnnxRuntimeDoesNotHaveInFewWords) {
  const auto runtime = make_runtime();
  EXPECT_THAT(runtime->providers(), Contains(kCpu));
  const auto loaded =
      runtime->load(on({{"ROCMExecutionProvider", {}}, {"CoreMLExecutionProvider", {}}}, kFashion));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kUnavailable);
  EXPECT_EQ(loaded.error().message,
            "ROCMExecutionProvider, CoreMLExecutionProvider: not in this ONNX Runtime");
}

TEST(Load, TriesTheNextProviderAndKeepsEveryReason) {
  const auto loaded =
      make_runtime()->load(on({{"ROCMExecutionProvider", {}}, {kCpu, {}}}, kFashion));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->provider_used, kCpu);
  EXPECT_EQ(loaded->node_share, 1.0);
  ASSERT_EQ(loaded->failures.size(), 1u);
  EXPECT_EQ(loaded->failures[0].provider, "ROCMExecutionProvider");
  EXPECT_EQ(loaded->failures[0].reason, "not in this ONNX Runtime");
  ASSERT_EQ(loaded->backend->placement().size(), 1u);
  EXPECT_EQ(loaded->backend->placement()[0].provider, kCpu);
  EXPECT_GT(loaded->backend->placement()[0].nodes, 10u);
}

TEST(Load, RefusesAMissingAndABrokenModel) {
  const auto runtime = make_runtime();
  const auto missing = runtime->load(on({{kCpu, {}}}, "/nonexistent/model.onnx"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().message, "/nonexistent/model.onnx: no such file");
  const std::string broken = temporary_file("broken.onnx", "this is no model");
  EXPECT_THAT(why_not(*runtime, {kCpu, {}}, broken), HasSubstr("Protobuf parsing failed"));
  EXPECT_THAT(why_not(*runtime, {kCpu, {}}, own_model("sequence.onnx")),
              HasSubstr("output 'both' is no tensor"));
  EXPECT_THAT(why_not(*runtime, {kCpu, {}}, own_model("any_rank.onnx")),
              HasSubstr("input 'x' has no shape"));
}

TEST(Load, RefusesOptionsOfTheCpuProvider) {
  EXPECT_EQ(why_not(*make_runtime(), {kCpu, {{"device_id", "1"}}}),
            "CPUExecutionProvider: unknown option 'device_id': it takes none");
}

TEST(ProviderLibrary, ThatIsMissingEmptyOrBrokenIsAReasonAndNothingElse) {
  const std::string empty = temporary_file("libempty.so", "");
  const std::string text = temporary_file("libtext.so", std::string(4096, 'x'));
  const auto runtime =
      make_runtime({.provider_libraries = {
                        {"CUDAExecutionProvider", "/nonexistent/libcuda_ep.so"},
                        {kOpenVino, empty},
                        {kWebGpu, text},
                        {"QNNExecutionProvider", "/lib/x86_64-linux-gnu/libm.so.6"},
                        {"MIGraphXExecutionProvider", "relative/libep.so"},
                    }});
  EXPECT_THAT(
      why_not(*runtime, {"CUDAExecutionProvider", {}}),
      AllOf(HasSubstr("/nonexistent/libcuda_ep.so"), HasSubstr("cannot open shared object")));
  EXPECT_THAT(why_not(*runtime, {kOpenVino, {}}),
              AllOf(HasSubstr(empty), HasSubstr("file too short")));
  EXPECT_THAT(why_not(*runtime, {kWebGpu, {}}),
              AllOf(HasSubstr(text), HasSubstr("invalid ELF header")));
  EXPECT_THAT(why_not(*runtime, {"QNNExecutionProvider", {}}),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("CreateEpFactories")));
  EXPECT_THAT(why_not(*runtime, {"MIGraphXExecutionProvider", {}}),
              HasSubstr("library relative/libep.so: the path must be absolute"));
  EXPECT_THAT(runtime->providers(), Not(Contains(kOpenVino)));
  EXPECT_TRUE(runtime->load(on({{kWebGpu, {}}, {kCpu, {}}}, kFashion))) << "the CPU is still there";
}

TEST(WebGpu, SaysThatThereIsNoVulkanDriver) {
  const auto runtime = make_runtime();
  const auto names = runtime->providers();
  if (std::ranges::find(names, kWebGpu) == names.end()) GTEST_SKIP() << "no WebGPU plugin here";
  setenv("VK_DRIVER_FILES", "/nonexistent", 1);
  EXPECT_EQ(why_not(*runtime, {kWebGpu, {}}),
            "WebGpuExecutionProvider: no Vulkan device: the loader found no driver");
}

TEST(OpenVino, GetsEveryNodeAndGivesTheRightLabels) {
  const auto runtime = make_runtime();
  if (!has_openvino(*runtime)) GTEST_SKIP() << "no OpenVINO plugin here";
  for (const char* file : {"model.onnx", "model.int8.onnx"}) {
    const std::string path = demo(std::string("models/fashion/1/") + file);
    const auto loaded = runtime->load(on({{kOpenVino, {}}, {kCpu, {}}}, path));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->provider_used, kOpenVino);
    EXPECT_EQ(loaded->node_share, 1.0);
    ASSERT_EQ(loaded->backend->placement().size(), 1u);
    EXPECT_GT(loaded->backend->placement()[0].nodes, 10u) << "fused nodes are counted one by one";
    const auto got = fashion_labels(*loaded->backend, 200);
    const auto expected = fashion_labels(*load_cpu(*runtime, path), 200);
    int same = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) same += got.at(i) == expected[i] ? 1 : 0;
    EXPECT_GE(same, 196) << "it may compute in BF16";
  }
}

TEST(OpenVino, TakesItsOptionsAsGiven) {
  const auto runtime = make_runtime();
  if (!has_openvino(*runtime)) GTEST_SKIP() << "no OpenVINO plugin here";
  const auto exact = runtime->load(on(
      {{kOpenVino, {{"load_config", R"({"CPU":{"INFERENCE_PRECISION_HINT":"f32"}})"}}}}, kFashion));
  ASSERT_TRUE(exact) << exact.error().message;
  const auto images = fashion_images(1);
  const std::vector inputs = {view(DType::kFp32, {1, 1, 28, 28}, images)};
  const auto got = values_of<float>(run_all(*exact->backend, inputs)->at(0));
  const auto expected = values_of<float>(run_all(*load_cpu(*runtime, kFashion), inputs)->at(0));
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4);

  EXPECT_THAT(why_not(*runtime, {kOpenVino, {{"load_config", R"({"CPU":{"NONSENSE":"1"}})"}}}),
              AllOf(StartsWith("OpenVINOExecutionProvider: "),
                    HasSubstr("Unsupported property NONSENSE by CPU plugin")));
}

TEST(OpenVino, AnswersAsTheCpuProviderDoesInF32) {
  const auto runtime = make_runtime();
  if (!has_openvino(*runtime)) GTEST_SKIP() << "no OpenVINO plugin here";
  const config::ProviderConfig f32{
      kOpenVino, {{"load_config", R"({"CPU":{"INFERENCE_PRECISION_HINT":"f32"}})"}}};
  for (const char* file : {"models/langid/1/model.onnx", "models/langid/1/model.small.onnx",
                           "models/upscale/1/model.onnx"}) {
    const auto loaded = runtime->load(on({f32}, demo(file)));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->node_share, 1.0) << file;
    const auto inputs = sample_inputs(loaded->backend->signature(), 24);
    const auto got = run_all(*loaded->backend, views_of(inputs));
    const auto expected = run_all(*load_cpu(*runtime, demo(file)), views_of(inputs));
    ASSERT_TRUE(got && expected) << file;
    EXPECT_EQ(got->at(0).shape, expected->at(0).shape);
    EXPECT_THAT(values_of<float>(got->at(0)),
                Pointwise(FloatNear(1e-3F), values_of<float>(expected->at(0))))
        << file;
  }
}

TEST(OpenVino, IsNotUsedWhereMostNodesWentElsewhere) {
  const auto runtime = make_runtime();
  if (!has_openvino(*runtime)) GTEST_SKIP() << "no OpenVINO plugin here";
  EXPECT_EQ(why_not(*runtime, {kOpenVino, {}}, own_model("lower.onnx")),
            "OpenVINOExecutionProvider: none of the graph's 1 nodes could be placed on it");
  EXPECT_EQ(why_not(*runtime, {kOpenVino, {}}, own_model("mixed.onnx")),
            "OpenVINOExecutionProvider: only 33 % of the graph's 3 nodes could be placed on it; "
            "CPUExecutionProvider has 2");
}

TEST(OpenVino, RefusesADeviceThatItDoesNotHave) {
  const auto runtime = make_runtime();
  if (!has_openvino(*runtime)) GTEST_SKIP() << "no OpenVINO plugin here";
  LoadSpec spec = on({{kOpenVino, {}}}, kFashion);
  spec.device_ids = {97};
  const auto loaded = runtime->load(spec);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("no device 97: it has "));
}

TEST(OrtLog, VerboseShowsWhereNodesWerePlaced) {
  log::configure(log::Severity::kDebug, log::Format::kText);
  ::testing::internal::CaptureStderr();
  load_cpu(*make_runtime(), kFashion);
  const std::string plain = ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  const auto backend = load_cpu(*make_runtime({.verbose = true}), kFashion);
  const std::string verbose = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(verbose, HasSubstr("All nodes placed on [CPUExecutionProvider]"));
  EXPECT_THAT(plain, Not(HasSubstr("nodes placed on")));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) fashion_labels(*backend, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "a run logs nothing";
  log::configure(log::Severity::kInfo, log::Format::kText);
}

TEST(FailuresText, SaysEqualReasonsOnce) {
  EXPECT_EQ(failures_text({{"A", "gone"}, {"B", "broken"}, {"C", "gone"}}),
            "A, C: gone; B: broken");
  EXPECT_EQ(failures_text({}), "");
}

}  // namespace
}  // namespace gradus::runtime
