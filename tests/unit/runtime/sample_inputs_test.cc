#include "runtime/sample_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixture.h"

namespace gradus::runtime {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Answers as told, and remembers the sizes it was asked with.
struct FakeBackend final : Backend {
  Signature fixed;
  std::vector<Placement> nowhere;
  std::vector<std::int64_t> sizes;
  std::int64_t accepted = 0;
  Code refusal = Code::kInvalid;
  std::map<std::int64_t, Code> refusals;  // other ones

  const Signature& signature() const override { return fixed; }
  const std::vector<Placement>& placement() const override { return nowhere; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const RunInputs& inputs, std::span<const std::size_t> /*outputs*/,
                                  Stop*) override {
    sizes.push_back(inputs.views[0].shape.back());
    if (sizes.back() == accepted) return std::vector<Tensor>{};
    const auto other = refusals.find(sizes.back());
    return fail(other == refusals.end() ? refusal : other->second,
                "size " + std::to_string(sizes.back()));
  }
};

TEST(SampleInputs, FillBatchWithOneAndTheRestWithTheSize) {
  const Signature signature = {{{"image", DType::kFp32, {-1, 3, -1, -1}},
                                {"count", DType::kInt32, {}},
                                {"attention_mask", DType::kInt64, {-1, -1}},
                                {"text", DType::kBytes, {-1, 2}}},
                               {}};
  const auto inputs = sample_inputs(signature, 8);
  ASSERT_EQ(inputs.size(), 4u);
  EXPECT_EQ(inputs[0].shape, (Shape{1, 3, 8, 8}));
  const auto pixels = values_of<float>(inputs[0]);
  EXPECT_THAT(pixels, Each(::testing::AllOf(::testing::Ge(0.0F), ::testing::Lt(1.0F))));
  EXPECT_NE(pixels[0], pixels[1]);
  EXPECT_THAT(values_of<std::int32_t>(inputs[1]), Each(::testing::AnyOf(0, 1)));
  EXPECT_THAT(values_of<std::int64_t>(inputs[2]), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(*bytes_elements(inputs[3].data, 2), ElementsAre("1", "1"));
  for (const TensorView& input : views_of(inputs)) EXPECT_TRUE(check_byte_size(input));
}

TEST(SampleInputs, AreTheSameEveryTime) {
  const Signature signature = {{{"x", DType::kFp16, {-1, -1}}}, {}};
  const auto once = sample_inputs(signature, 100);
  const auto again = sample_inputs(signature, 100);
  EXPECT_TRUE(std::ranges::equal(once[0].data, again[0].data));
  for (const std::uint16_t bits : values_of<std::uint16_t>(once[0]))
    EXPECT_LT(bits, 0x3c00) << "< 1";
}

TEST(FindSample, GoesThroughTheSizesUntilOneIsAccepted) {
  FakeBackend backend;
  backend.fixed = {{{"x", DType::kFp32, {-1, -1}}}, {}};
  backend.accepted = 128;
  const auto sample = find_sample(backend);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->size, 128);
  EXPECT_THAT(backend.sizes, ElementsAre(64, 32, 128));
}

TEST(FindSample, TriesOnceWhereNoSizeIsFreeOrTheDeviceFails) {
  FakeBackend batch_only;
  batch_only.fixed = {{{"x", DType::kFp32, {-1, 5}}}, {}};
  EXPECT_EQ(find_sample(batch_only).error().message, "size 5");
  EXPECT_THAT(batch_only.sizes, ElementsAre(5));
  FakeBackend lost;
  lost.fixed = {{{"x", DType::kFp32, {-1, -1}}}, {}};
  for (const Code code : {Code::kUnavailable, Code::kNotFound, Code::kWorkerLost}) {
    lost.refusal = code;
    lost.sizes.clear();
    EXPECT_EQ(find_sample(lost).error().message, "size 64");
    EXPECT_THAT(lost.sizes, ElementsAre(64));
  }
}

TEST(FindSample, ReturnsTheErrorThatIsNoSizesFault) {
  FakeBackend backend;
  backend.fixed = {{{"x", DType::kFp32, {-1, -1}}}, {}};
  EXPECT_EQ(find_sample(backend).error().message, "size 64") << "of all sizes' faults the first";
  for (const Code code : {Code::kUnavailable, Code::kNotFound, Code::kWorkerLost}) {
    backend.refusals = {{128, code}};
    backend.sizes.clear();
    const auto sample = find_sample(backend);
    ASSERT_FALSE(sample);
    EXPECT_EQ(sample.error().code, code);
    EXPECT_EQ(sample.error().message, "size 128");
    EXPECT_THAT(backend.sizes, ElementsAre(64, 32, 128));
  }
}

}  // namespace
}  // namespace gradus::runtime
