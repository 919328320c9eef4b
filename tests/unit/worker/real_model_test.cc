// ONNX Runtime in a worker answers as it does here, to the bit.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "child.h"
#include "runtime/ort/ort_runtime.h"
#include "runtime/sample_inputs.h"
#include "worker/supervisor.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

// OpenVINO's TBB opens a library with RTLD_DEEPBIND, which ends a process with a sanitizer: there a
// library that does not exist takes the plugin's place.
std::map<std::string, std::string> libraries() {
  if (kSanitized) return {{"OpenVINOExecutionProvider", "/nonexistent/sanitized.so"}};
  return {};
}

runtime::LoadSpec on_cpu(const std::string& file) {
  runtime::LoadSpec spec;
  spec.file = GRADUS_DEMO "/models/" + file;
  spec.providers = {{"CPUExecutionProvider", {}}};
  return spec;
}

TEST(RealModel, IsolatedOrNotTheAnswersAreBitIdentical) {
  Supervisor::Options options;
  options.worker = child();
  options.worker.greeting.provider_libraries = libraries();
  Supervisor supervisor(options, steady_clock());
  const auto runtime = runtime::OrtRuntime::create({.provider_libraries = libraries()}).value();
  for (const char* file : {"fashion/1/model.onnx", "langid/1/model.onnx"}) {
    const auto isolated = supervisor.load(on_cpu(file), 1s, {});
    ASSERT_TRUE(isolated) << isolated.error().message;
    const auto here = runtime->load(on_cpu(file)).value();
    EXPECT_EQ(isolated->provider_used, here.provider_used);
    const auto inputs = runtime::sample_inputs(here.backend->signature(), 32);
    const std::vector<std::size_t> outputs = {0};
    const auto mine = here.backend->run(runtime::views_of(inputs), outputs).value();
    const auto theirs = isolated->backend->run(runtime::views_of(inputs), outputs);
    ASSERT_TRUE(theirs) << theirs.error().message;
    EXPECT_EQ(theirs->at(0).shape, mine.at(0).shape);
    EXPECT_TRUE(std::ranges::equal(theirs->at(0).data, mine.at(0).data)) << file;
  }
}

TEST(RealModel, GetsTheOptionalInputsThatARunIsGiven) {
  Supervisor::Options options;
  options.worker = child();
  options.worker.greeting.provider_libraries = libraries();
  Supervisor supervisor(options, steady_clock());
  runtime::LoadSpec spec = on_cpu("");
  spec.file = GRADUS_TEST_MODELS "/scaled/1/model.onnx";
  spec.overridable = {"scale", "shift"};
  const auto loaded = supervisor.load(spec, 1s, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->backend->signature().optional_inputs.size(), 2U);
  const std::vector<float> x = {1, 2, 3, 4};
  const std::vector<float> tens(4, 10);
  const auto run = [&](const std::vector<std::size_t>& optional) {
    std::vector<TensorView> views{{DType::kFp32, {1, 4}, std::as_bytes(std::span(x))}};
    for (const std::size_t i : optional) {
      views.push_back(
          {DType::kFp32, i == 0 ? Shape{1, 4} : Shape{4}, std::as_bytes(std::span(tens))});
    }
    const std::vector<std::size_t> outputs = {0};
    const auto answer = loaded->backend->run({views, optional}, outputs);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? floats(answer->at(0)) : std::vector<float>{};
  };
  EXPECT_EQ(run({}), (std::vector<float>{1, 4, 9, 16}));
  EXPECT_EQ(run({0}), (std::vector<float>{10, 20, 30, 40}));
  EXPECT_EQ(run({1}), (std::vector<float>{11, 14, 19, 26}));
  EXPECT_EQ(run({0, 1}), (std::vector<float>{20, 30, 40, 50}));
  EXPECT_EQ(run({}), (std::vector<float>{1, 4, 9, 16}));
}

TEST(RealModel, AFileThatIsNotThereIsSaidAsItIsHere) {
  Supervisor::Options options;
  options.worker = child();
  options.worker.greeting.provider_libraries = libraries();
  Supervisor supervisor(options, steady_clock());
  const auto loaded = supervisor.load(on_cpu("nothing.onnx"), 1s, {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace gradus::worker
