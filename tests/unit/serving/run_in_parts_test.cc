// The parts of a large request give one answer, and only one part lives at a time.
#include "serving/run_in_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

namespace gradus::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
Tensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return make_tensor(dtype, std::move(shape), {bytes.begin(), bytes.end()});
}

Tensor texts(Shape shape, const std::vector<std::string>& values) {
  std::vector<std::byte> bytes;
  for (const std::string& value : values) append_bytes_element(bytes, value);
  return make_tensor(DType::kBytes, std::move(shape), std::move(bytes));
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::ranges::copy(tensor.data, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

std::vector<std::string> texts_of(const Tensor& tensor) {
  const auto elements = bytes_elements(tensor.data, *element_count(tensor.shape));
  return {elements->begin(), elements->end()};
}

using Answer = std::function<std::vector<Tensor>(std::span<const TensorView>)>;

// Answers what it is told to, and counts how many of its outputs are alive when a run begins.
class Parts final : public runtime::Backend {
 public:
  Parts(Answer answer, std::vector<std::size_t>& alive)
      : answer_(std::move(answer)), alive_(alive) {}

  const runtime::Signature& signature() const override { return signature_; }
  const std::vector<runtime::Placement>& placement() const override { return placement_; }
  using Backend::run;
  Result<std::vector<Tensor>> run(const runtime::RunInputs& inputs, std::span<const std::size_t>,
                                  runtime::Stop*) override {
    std::erase_if(outputs_, [](const auto& output) { return output.expired(); });
    alive_.push_back(outputs_.size());
    auto outputs = answer_(inputs.views);
    for (const Tensor& output : outputs) outputs_.push_back(output.owner);
    return outputs;
  }

 private:
  const Answer answer_;
  std::vector<std::size_t>& alive_;
  std::vector<std::weak_ptr<const void>> outputs_;
  const runtime::Signature signature_{
      .inputs = {{"x", DType::kInt32, {-1}}},
      .outputs = {{"y", DType::kInt32, {-1}}, {"text", DType::kBytes, {-1, 1}}},
      .optional_inputs = {}};
  const std::vector<runtime::Placement> placement_;
};

class RunInPartsTest : public ::testing::Test {
 protected:
  Result<std::vector<Tensor>> run(std::int32_t samples, std::uint32_t max_size, Answer answer,
                                  const std::vector<std::size_t>& wanted = {0},
                                  runtime::Stop* stop = nullptr) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(samples));
    std::iota(values.begin(), values.end(), 0);
    const TensorView input{DType::kInt32, {samples}, std::as_bytes(std::span(values))};
    LevelRuntime level;
    level.backend = std::make_unique<Parts>(std::move(answer), alive_);
    level.memory = &pool_;
    return run_in_parts(level, std::span(&input, 1), static_cast<std::uint32_t>(samples), max_size,
                        wanted, stop);
  }

  worker::SharedPool pool_{{.shared = false}};
  std::vector<std::size_t> alive_;  // of a level's outputs, as each run begins
};

// What it got, and as text.
std::vector<Tensor> both(std::span<const TensorView> inputs) {
  const Tensor input{inputs[0].dtype, inputs[0].shape, inputs[0].data, nullptr};
  const auto values = values_of<std::int32_t>(input);
  std::vector<std::string> as_text;
  for (const std::int32_t value : values) as_text.push_back(std::to_string(value));
  return {tensor(DType::kInt32, input.shape, values), texts({input.shape[0], 1}, as_text)};
}

std::vector<Tensor> numbers(std::span<const TensorView> inputs) { return {both(inputs)[0]}; }

TEST_F(RunInPartsTest, PutsTheRowsOfAllPartsBehindEachOther) {
  std::vector<Shape> parts;
  const auto answer = run(7, 3,
                          [&](std::span<const TensorView> inputs) {
                            parts.push_back(inputs[0].shape);
                            return both(inputs);
                          },
                          {0, 1});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(parts, ElementsAre(Shape{3}, Shape{3}, Shape{1}));
  ASSERT_EQ(answer->size(), 2u);
  EXPECT_EQ((*answer)[0].dtype, DType::kInt32);
  EXPECT_EQ((*answer)[0].shape, (Shape{7}));
  EXPECT_THAT(values_of<std::int32_t>((*answer)[0]), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ((*answer)[1].dtype, DType::kBytes);
  EXPECT_EQ((*answer)[1].shape, (Shape{7, 1}));
  EXPECT_THAT(texts_of((*answer)[1]), ElementsAre("0", "1", "2", "3", "4", "5", "6"));
}

TEST_F(RunInPartsTest, HoldsTheOutputsOfOnePartOnly) {
  const std::int32_t samples = 100'003;
  const auto answer = run(samples, 2, both, {0, 1});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(alive_.size(), 50'002u);
  EXPECT_EQ(std::ranges::max(alive_), 0u);
  const auto values = values_of<std::int32_t>((*answer)[0]);
  ASSERT_EQ(values.size(), 100'003u);
  for (std::int32_t i = 0; i < samples; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  const auto as_text = texts_of((*answer)[1]);  // over 64 KiB: it outgrew its memory more than once
  ASSERT_EQ(as_text.size(), 100'003u);
  for (std::size_t i = 0; i < as_text.size(); ++i) ASSERT_EQ(as_text[i], std::to_string(i));
}

TEST_F(RunInPartsTest, OutputsWithoutElementsKeepTheirShape) {
  const auto answer = run(5, 2, [](std::span<const TensorView> inputs) {
    return std::vector{tensor<float>(DType::kFp32, {inputs[0].shape[0], 0}, {})};
  });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)[0].shape, (Shape{5, 0}));
  EXPECT_TRUE((*answer)[0].data.empty());
}

TEST_F(RunInPartsTest, RefusesAPartThatIsUnlikeTheOnesBefore) {
  const auto float_row = [](std::int64_t rows, std::int64_t columns) {
    return tensor<float>(DType::kFp32, {rows, columns},
                         std::vector<float>(static_cast<std::size_t>(rows * columns)));
  };
  const std::vector<std::pair<std::function<Tensor(std::int64_t)>, std::string>> cases{
      {[&](auto rows) { return float_row(rows, rows == 2 ? 3 : 4); },
       "output 'y' has FP32 [1,4], expected FP32 [1,3] as in the parts before"},
      {[&](auto rows) {
         return rows == 2 ? float_row(rows, 1) : tensor<std::int32_t>(DType::kInt32, {1, 1}, {0});
       },
       "output 'y' has INT32 [1,1], expected FP32 [1,1] as in the parts before"},
      {[&](auto) { return float_row(2, 1); },
       "output 'y' has shape [2,1], expected dimension 0 = 1, the part's samples"},
      {[&](auto) { return tensor<float>(DType::kFp32, {}, {0}); },
       "output 'y' has shape [], expected dimension 0 = 2, the part's samples"},
      {[&](auto rows) {
         return tensor<float>(DType::kFp32, {rows, 1}, {0});
       },
       "output 'y' has 4 bytes"},
  };
  for (const auto& [made, why] : cases) {
    const auto answer = run(5, 2, [&](std::span<const TensorView> inputs) {
      return std::vector{made(inputs[0].shape[0])};
    });
    ASSERT_FALSE(answer) << why;
    EXPECT_EQ(answer.error().code, Code::kUnavailable);
    EXPECT_THAT(answer.error().message, HasSubstr(why));
  }
}

TEST_F(RunInPartsTest, RefusesAnOutputThatNoMemoryHolds) {
  const std::vector<std::byte> row(1 << 25);
  const auto answer = run(1 << 23, 1, [&](std::span<const TensorView>) {
    return std::vector{Tensor{DType::kUint8, {1, 1 << 25}, row, nullptr}};
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(answer.error().message, "no memory for output 'y' of 281474976710656 bytes");
}

TEST_F(RunInPartsTest, EndsBetweenPartsWhenNobodyWaits) {
  runtime::Stop stop;
  const auto answer = run(
      6, 2,
      [&](std::span<const TensorView> inputs) {
        if (alive_.size() == 2) stop.request();
        return numbers(inputs);
      },
      {0}, &stop);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kCancelled);
  EXPECT_EQ(alive_.size(), 2u);
}

}  // namespace
}  // namespace gradus::serving
