// Real models with known answers, at every level that a CPU runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fixture.h"
#include "runtime/sample_inputs.h"

namespace gradus::runtime {
namespace {

using ::testing::ElementsAre;

class FashionLevel : public ::testing::TestWithParam<const char*> {};

TEST_P(FashionLevel, ClassifiesTheTestImages) {
  const auto backend = load_cpu(demo(std::string("models/fashion/1/") + GetParam()));
  const auto labels = file_bytes(demo("samples/fashion-labels.idx1"));
  const std::vector<int> got = fashion_labels(*backend, 200);
  ASSERT_EQ(got.size(), 200u);
  // Ankle boot, Pullover, Trouser, Trouser, Shirt.
  EXPECT_THAT(std::vector(got.begin(), got.begin() + 5), ElementsAre(9, 2, 1, 1, 6));
  int right = 0;
  for (std::size_t i = 0; i < got.size(); ++i) right += got[i] == labels.at(8 + i) ? 1 : 0;
  EXPECT_GE(right, 174) << "87 % of 200";
}

INSTANTIATE_TEST_SUITE_P(OnCpu, FashionLevel,
                         ::testing::Values("model.onnx", "model.fp16.onnx", "model.int8.onnx",
                                           "model.small.onnx"),
                         [](const auto& level) {
                           std::string name = level.param;
                           std::erase(name, '.');
                           return name;
                         });

TEST(Fashion, ConcurrentRunsOfOneSessionGiveTheSameAnswers) {
  const auto backend = load_cpu(demo("models/fashion/1/model.int8.onnx"));
  const std::vector<int> expected = fashion_labels(*backend, 16);
  std::vector<std::vector<int>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& labels : got) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) labels = fashion_labels(*backend, 16);
      });
    }
  }
  for (const auto& labels : got) EXPECT_EQ(labels, expected);
}

int language_of(Backend& backend, std::string_view text) {
  std::vector<std::int64_t> ids = {257};
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  const std::vector<std::int64_t> mask(ids.size(), 1);
  const Shape shape = {1, static_cast<std::int64_t>(ids.size())};
  const auto answer =
      run_all(backend, {view(DType::kInt64, shape, ids), view(DType::kInt64, shape, mask)});
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? best_of_rows(values_of<float>(answer->at(0)), 8).at(0) : -1;
}

TEST(Langid, EveryLevelKnowsThreeLanguages) {
  for (const char* file :
       {"model.onnx", "model.fp16.onnx", "model.int8.onnx", "model.small.onnx"}) {
    const auto backend = load_cpu(demo(std::string("models/langid/1/") + file));
    EXPECT_EQ(language_of(*backend, "The old man told the children a very long story."), 0) << file;
    EXPECT_EQ(language_of(*backend, "Wer anderen eine Grube gräbt, fällt selbst hinein."), 1)
        << file;
    EXPECT_EQ(language_of(*backend, "Nikt nie wie, dlaczego wczoraj zgasło światło."), 6) << file;
  }
}

TEST(Upscale, DoublesHeightAndWidth) {
  const auto backend = load_cpu(demo("models/upscale/1/model.small.onnx"));
  const std::vector<float> grey(std::size_t{24} * 32 * 3, 128.0F);
  const auto answer = run_all(*backend, {view(DType::kFp32, {1, 24, 32, 3}, grey)});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at(0).shape, (Shape{1, 48, 64, 3}));
  const auto pixels = values_of<float>(answer->at(0));
  EXPECT_NEAR(pixels[pixels.size() / 2], 128, 8) << "grey stays grey";
}

}  // namespace
}  // namespace gradus::runtime
