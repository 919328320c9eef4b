// WebGPU on the software Vulkan driver: slow, but the whole path that a GPU takes. A process of its
// own, with VK_DRIVER_FILES naming the driver: an adapter that fails stays lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "fixture.h"
#include "runtime/fault_class.h"
#include "runtime/ort/vulkan_devices.h"

namespace gradus::runtime {
namespace {

using ::testing::HasSubstr;

class WebGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* driver = std::getenv("VK_DRIVER_FILES");
    if (driver == nullptr || !std::filesystem::exists(driver)) {
      GTEST_SKIP() << "no software Vulkan driver here; ./dev setup installs it";
    }
    runtime_ = make_runtime({.allow_software_gpu = true});
    const auto names = runtime_->providers();
    if (std::ranges::find(names, kWebGpu) == names.end()) GTEST_SKIP() << "no WebGPU plugin here";
  }

  Result<Loaded> load(const std::string& file, bool allow_software_gpu = true) const {
    LoadSpec spec = on({{kWebGpu, {}}}, demo("models/fashion/1/" + file));
    spec.allow_software_gpu = allow_software_gpu;
    return runtime_->load(spec);
  }

  std::unique_ptr<OrtRuntime> runtime_;
};

TEST_F(WebGpu, ASoftwareDeviceIsKnownByNameAndNoGpuUnlessAllowed) {
  const auto devices = vulkan_devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_THAT(devices->at(0).name, HasSubstr("llvmpipe"));
  EXPECT_TRUE(devices->at(0).software);
  const auto refused = load("model.onnx", false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "WebGpuExecutionProvider: only software Vulkan devices (" +
                                         devices->at(0).name + "), and allow_software_gpu is off");
}

// Largest difference of any logit of the first 8 images from the CPU provider's.
float difference_from_cpu(const OrtRuntime& runtime, Backend& backend) {
  const auto images = fashion_images(8);
  const std::vector inputs = {view(DType::kFp32, {8, 1, 28, 28}, images)};
  const auto got = run_all(backend, inputs);
  EXPECT_TRUE(got) << got.error().message;
  const auto expected = run_all(*load_cpu(runtime, demo("models/fashion/1/model.onnx")), inputs);
  if (!got || !expected) return 1e9F;
  const auto a = values_of<float>(got->at(0));
  const auto b = values_of<float>(expected->at(0));
  float worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) worst = std::max(worst, std::abs(a.at(i) - b[i]));
  return worst;
}

TEST_F(WebGpu, RunsTheModelAsTheCpuDoesAndOneAtATime) {
  const auto fp32 = load("model.onnx");
  ASSERT_TRUE(fp32) << fp32.error().message;
  EXPECT_EQ(fp32->provider_used, kWebGpu);
  EXPECT_GT(fp32->node_share, 0.9);
  EXPECT_LT(difference_from_cpu(*runtime_, *fp32->backend), 1e-3);
  const auto fp16 = load("model.fp16.onnx");
  ASSERT_TRUE(fp16) << fp16.error().message;
  EXPECT_GT(fp16->node_share, 0.9);
  EXPECT_LT(difference_from_cpu(*runtime_, *fp16->backend), 0.1) << "of logits up to 10";

  const std::vector<int> expected = fashion_labels(*fp32->backend, 2);
  std::vector<std::vector<int>> got(2);
  {
    const std::jthread first([&] { got[0] = fashion_labels(*fp32->backend, 2); });
    const std::jthread second([&] { got[1] = fashion_labels(*fp16->backend, 2); });
  }
  EXPECT_EQ(got[0], expected);
  EXPECT_EQ(got[1], expected);
}

// The driver has no buffer of 6.4 GB.
TEST_F(WebGpu, WantOfDeviceMemoryIsNamedAndTheNextRunIsRight) {
  LoadSpec spec = on({{kWebGpu, {}}}, own_model("outer.onnx"));
  spec.allow_software_gpu = true;
  const auto loaded = runtime_->load(spec);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::vector<float> side(40'000, 3);
  const auto product_of = [&](std::int64_t n) {
    return run_all(*loaded->backend,
                   std::vector{view(DType::kFp32, {n, 1}, side), view(DType::kFp32, {1, n}, side)});
  };
  const auto refused = product_of(40'000);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("VK_ERROR_OUT_OF_DEVICE_MEMORY"));
  EXPECT_EQ(fault_class(refused.error()), FaultClass::kOutOfMemory);
  const auto small = product_of(2);
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(values_of<float>(small->at(0)), std::vector<float>(4, 9));
}

TEST_F(WebGpu, WithoutItsDriverIsTheReason) {
  const std::string driver = std::getenv("VK_DRIVER_FILES");
  setenv("VK_DRIVER_FILES", "/nonexistent", 1);
  const auto gone = load("model.onnx");
  setenv("VK_DRIVER_FILES", driver.c_str(), 1);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message,
            "WebGpuExecutionProvider: no Vulkan device: the loader found no driver");
}

}  // namespace
}  // namespace gradus::runtime
