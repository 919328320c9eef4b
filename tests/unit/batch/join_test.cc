// What is joined and split again comes back bit by bit.
#include "batch/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "batch/split.h"

namespace gradus::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Tensor tensor(DType dtype, Shape shape) {
    std::vector<std::byte> bytes;
    const std::uint64_t count = *element_count(shape);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (dtype == DType::kBytes) {
        append_bytes_element(bytes, std::string(static_cast<std::size_t>(between(0, 5)), 'x') +
                                        std::to_string(between(0, 99)));
      }
      for (std::size_t b = 0; b < element_size(dtype); ++b) bytes.push_back(std::byte(random_()));
    }
    return make_tensor(dtype, std::move(shape), std::move(bytes));
  }

 private:
  std::mt19937_64 random_;
};

TensorView view(const Tensor& tensor) { return {tensor.dtype, tensor.shape, tensor.data}; }

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

template <class T>
Tensor values(DType dtype, Shape shape, const std::vector<T>& numbers) {
  return make_tensor(dtype, std::move(shape), copy(std::as_bytes(std::span(numbers))));
}
Tensor int32s(Shape shape, const std::vector<std::int32_t>& numbers) {
  return values(DType::kInt32, std::move(shape), numbers);
}

std::vector<std::int32_t> read_int32s(const Tensor& tensor) {
  std::vector<std::int32_t> numbers(tensor.data.size() / 4);
  std::copy(tensor.data.begin(), tensor.data.end(),
            std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

Result<Tensor> joined(const std::vector<Tensor>& parts, const Pad* pad = nullptr) {
  std::vector<TensorView> views;
  for (const Tensor& part : parts) views.push_back(view(part));
  std::vector<const TensorView*> pointers;
  for (const TensorView& each : views) pointers.push_back(&each);
  const auto plan = plan_join("x", pointers, pad);
  if (!plan) return tl::unexpected(plan.error());
  std::vector<std::byte> bytes(plan->bytes);
  join(pointers, *plan, bytes, pad);
  return make_tensor(parts.front().dtype, plan->shape, std::move(bytes));
}

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(copy(a.data), copy(b.data));
}

bool lies_in(const Tensor& part, const Tensor& whole) {
  return part.owner == whole.owner &&
         (part.data.empty() ||
          (part.data.data() >= whole.data.data() &&
           part.data.data() + part.data.size() <= whole.data.data() + whole.data.size()));
}

TEST(Join, PutsRowsBehindEachOther) {
  const auto whole = joined({int32s({1, 2}, {1, 2}), int32s({2, 2}, {3, 4, 5, 6})});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->shape, (Shape{3, 2}));
  EXPECT_THAT(read_int32s(*whole), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Join, PadsEachToTheLongest) {
  const Pad pad{1, *pad_element(DType::kInt32, -7)};
  const auto whole = joined({int32s({2, 1}, {1, 2}), int32s({1, 3}, {3, 4, 5})}, &pad);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->shape, (Shape{3, 3}));
  EXPECT_THAT(read_int32s(*whole), ElementsAre(1, -7, -7, 2, -7, -7, 3, 4, 5));
}

TEST(Join, RefusesWhatDoesNotAgree) {
  const Pad pad{1, {}};
  const Tensor base = int32s({1, 2}, {1, 2});
  const std::vector<std::pair<std::vector<Tensor>, std::string>> cases{
      {{base, int32s({1, 3}, {1, 2, 3})}, "INT32 [1,2] with INT32 [1,3]"},
      {{base, int32s({1, 2, 1}, {1, 2})}, "INT32 [1,2] with INT32 [1,2,1]"},
      {{base, values<float>(DType::kFp32, {1, 2}, {1, 2})}, "INT32 [1,2] with FP32 [1,2]"},
      {{int32s({}, {1})}, "'x' is a scalar"},
      {{base, int32s({1, 2}, {1})}, "'x' has 4 bytes"},
  };
  for (const auto& [parts, why] : cases) {
    const auto whole = joined(parts);
    ASSERT_FALSE(whole) << why;
    EXPECT_EQ(whole.error().code, Code::kInternal);
    EXPECT_THAT(whole.error().message, HasSubstr(why));
  }
  const auto deeper =
      joined({int32s({1, 2, 1}, {1, 2}), int32s({1, 3, 2}, {1, 2, 3, 4, 5, 6})}, &pad);
  EXPECT_FALSE(deeper) << "only the padded dimension may differ";
  EXPECT_FALSE(joined({int32s({2}, {1, 2}), int32s({3}, {1, 2, 3})}, &pad)) << "no dimension 1";
}

TEST(Join, RefusesToPadBytes) {
  Random random(1);
  const Pad pad{1, {}};
  const auto whole =
      joined({random.tensor(DType::kBytes, {1, 2}), random.tensor(DType::kBytes, {1, 3})}, &pad);
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message, HasSubstr("BYTES cannot be padded: lengths 2 and 3"));
  EXPECT_TRUE(
      joined({random.tensor(DType::kBytes, {1, 2}), random.tensor(DType::kBytes, {2, 2})}, &pad));
}

TEST(JoinAndSplit, GiveEachItsOwnBitsWithoutACopy) {
  Random random(2);
  for (int round = 0; round < 2000; ++round) {
    const auto dtype = static_cast<DType>(random.between(0, static_cast<int>(DType::kBytes)));
    Shape shape(static_cast<std::size_t>(random.between(1, 4)));
    for (std::int64_t& dim : shape) dim = random.between(round % 5 == 0 ? 0 : 1, 4);
    std::vector<Tensor> parts;
    std::vector<Share> shares;
    for (std::int64_t n = random.between(1, 5); n > 0; --n) {
      shape[0] = random.between(1, 3);
      parts.push_back(random.tensor(dtype, shape));
      shares.push_back({static_cast<std::uint32_t>(shape[0]), 0});
    }
    const auto whole = joined(parts);
    ASSERT_TRUE(whole) << whole.error().message;
    const auto back = split("y", *whole, shares);
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->size(), parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      expect_equal((*back)[i], parts[i]);
      EXPECT_TRUE(lies_in((*back)[i], *whole));
    }
    if (HasFailure()) return;
  }
}

// The element at `index` of a tensor of fixed-size elements.
std::vector<std::byte> element(const Tensor& tensor, const Shape& index) {
  std::int64_t at = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) at = at * tensor.shape[dim] + index[dim];
  const std::size_t size = element_size(tensor.dtype);
  return copy(tensor.data.subspan(static_cast<std::size_t>(at) * size, size));
}

template <class Visit>
void each_index(const Shape& shape, Visit visit) {
  Shape index(shape.size(), 0);
  for (std::uint64_t count = *element_count(shape); count > 0; --count) {
    visit(index);
    for (std::size_t dim = shape.size(); dim-- > 0 && ++index[dim] == shape[dim];) index[dim] = 0;
  }
}

TEST(JoinAndSplit, PadAndCutBack) {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    const auto dtype = static_cast<DType>(random.between(0, static_cast<int>(DType::kBf16)));
    Shape shape(static_cast<std::size_t>(random.between(2, 4)));
    for (std::int64_t& dim : shape) dim = random.between(1, 3);
    const auto dim =
        static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(shape.size()) - 1));
    const double value = dtype == DType::kBool ? 1 : static_cast<double>(random.between(0, 100));
    const Pad pad{dim, *pad_element(dtype, value)};
    std::vector<Tensor> parts;
    std::vector<Share> shares;
    for (std::int64_t n = random.between(1, 5); n > 0; --n) {
      shape[0] = random.between(1, 3);
      shape[dim] = random.between(round % 5 == 0 ? 0 : 1, 6);
      parts.push_back(random.tensor(dtype, shape));
      shares.push_back({static_cast<std::uint32_t>(shape[0]), shape[dim]});
    }
    const auto whole = joined(parts, &pad);
    ASSERT_TRUE(whole) << whole.error().message;
    const auto filler = copy(std::span(pad.element).first(element_size(dtype)));
    std::int64_t first_row = 0;
    for (const Tensor& part : parts) {
      Shape box = whole->shape;
      box[0] = part.shape[0];
      each_index(box, [&, first = first_row](const Shape& index) {
        Shape in_whole = index;
        in_whole[0] += first;
        const bool own = index[dim] < part.shape[dim];
        ASSERT_EQ(element(*whole, in_whole), own ? element(part, index) : filler);
      });
      first_row += part.shape[0];
    }
    const auto back = split("y", *whole, shares, std::vector{dim});
    ASSERT_TRUE(back) << back.error().message;
    for (std::size_t i = 0; i < parts.size(); ++i) expect_equal((*back)[i], parts[i]);
    if (HasFailure()) return;
  }
}

TEST(Split, CutsEveryTiedDimension) {
  const Tensor whole =
      int32s({2, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  const auto parts =
      split("scores", whole, std::vector<Share>{{1, 3}, {1, 2}}, std::vector{1ul, 2ul});
  ASSERT_TRUE(parts);
  EXPECT_THAT(read_int32s((*parts)[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_TRUE(lies_in((*parts)[0], whole));
  EXPECT_EQ((*parts)[1].shape, (Shape{1, 2, 2}));
  EXPECT_THAT(read_int32s((*parts)[1]), ElementsAre(11, 12, 14, 15));
}

TEST(Split, CopiesOnlyWhatDoesNotLieInOnePiece) {
  const Tensor whole = int32s({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto one_row = split("h", whole, std::vector<Share>{{1, 1}, {2, 2}}, std::vector{1ul});
  ASSERT_TRUE(one_row);
  EXPECT_THAT(read_int32s((*one_row)[0]), ElementsAre(1, 2));
  EXPECT_TRUE(lies_in((*one_row)[0], whole));
  const auto two_rows = split("h", whole, std::vector<Share>{{2, 1}, {1, 2}}, std::vector{1ul});
  ASSERT_TRUE(two_rows);
  EXPECT_THAT(read_int32s((*two_rows)[0]), ElementsAre(1, 2, 5, 6));
  EXPECT_FALSE(lies_in((*two_rows)[0], whole));
  EXPECT_TRUE(lies_in((*two_rows)[1], whole));
}

TEST(Split, CutsBytesByTheirElements) {
  std::vector<std::byte> bytes;
  for (const char* word : {"a", "bb", "", "cccc", "dd", "e"}) append_bytes_element(bytes, word);
  const Tensor whole = make_tensor(DType::kBytes, {3, 2}, std::move(bytes));
  const auto parts = split("words", whole, std::vector<Share>{{2, 1}, {1, 2}}, std::vector{1ul});
  ASSERT_TRUE(parts);
  EXPECT_THAT(*bytes_elements((*parts)[0].data, 2), ElementsAre("a", ""));
  EXPECT_THAT(*bytes_elements((*parts)[1].data, 2), ElementsAre("dd", "e"));
}

TEST(Split, PartsKeepTheBufferAlive) {
  std::vector<Tensor> parts;
  {
    const Tensor whole = int32s({2, 1}, {1, 2});
    parts = *split("y", whole, std::vector<Share>{{1, 0}, {1, 0}});
  }
  parts.erase(parts.begin());
  EXPECT_THAT(read_int32s(parts[0]), ElementsAre(2));
}

TEST(Split, NamesAnOutputThatDoesNotFollow) {
  const std::vector<Share> shares{{1, 2}, {2, 3}};
  const struct {
    Tensor output;
    std::string why;
  } cases[] = {
      {int32s({1, 3}, {1, 2, 3}), "'mean' has shape [1,3], expected dimension 0 = 3, the batch"},
      {int32s({3, 2}, {1, 2, 3, 4, 5, 6}),
       "'mean' has shape [3,2], expected dimension 1 = 3, the longest padded length"},
      {int32s({3}, {1, 2, 3}), "'mean' has shape [3], expected dimension 1 = 3"},
      {int32s({}, {1}), "'mean' is a scalar"},
      {int32s({3, 3}, {1}), "'mean' has 4 bytes"},
      {make_tensor(DType::kBytes, {3, 3}, std::vector<std::byte>(3)), "'mean' BYTES element 0"},
  };
  for (const auto& [output, why] : cases) {
    const auto parts = split("mean", output, shares, std::vector{1ul});
    ASSERT_FALSE(parts) << why;
    EXPECT_EQ(parts.error().code, Code::kInternal);
    EXPECT_THAT(parts.error().message, HasSubstr(why));
  }
}

TEST(RowReader, ReadsRowsInOrderWithoutACopy) {
  const Tensor numbers = int32s({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  RowReader reader(view(numbers));
  for (const auto& [count, first] : {std::pair(2u, 0), {1u, 4}, {2u, 6}}) {
    const TensorView rows = reader.next(count);
    EXPECT_EQ(rows.dtype, DType::kInt32);
    EXPECT_EQ(rows.shape, (Shape{count, 2}));
    EXPECT_EQ(rows.data.data(), numbers.data.data() + 4 * first);
    EXPECT_EQ(rows.data.size(), 8 * count);
  }
}

TEST(RowReader, FindsTheRowsOfBytesByTheirLengths) {
  std::vector<std::byte> bytes;
  for (const char* text : {"", "seven", "a", "bc", "def", ""}) append_bytes_element(bytes, text);
  const Tensor texts = make_tensor(DType::kBytes, {3, 2}, std::move(bytes));
  RowReader reader(view(texts));
  const TensorView first = reader.next(1);
  const TensorView rest = reader.next(2);
  EXPECT_THAT(*bytes_elements(first.data, 2), ElementsAre("", "seven"));
  EXPECT_THAT(*bytes_elements(rest.data, 4), ElementsAre("a", "bc", "def", ""));
}

TEST(RowReader, WhatItReadsJoinedAgainIsTheTensor) {
  Random random(4);
  for (int round = 0; round < 500; ++round) {
    const auto dtype = static_cast<DType>(random.between(0, static_cast<int>(DType::kBytes)));
    const Tensor whole =
        random.tensor(dtype, {random.between(1, 9), random.between(0, 3), random.between(1, 3)});
    RowReader reader(view(whole));
    std::vector<Tensor> parts;
    for (std::int64_t left = whole.shape[0]; left > 0; left -= parts.back().shape[0]) {
      const std::int64_t count = std::min(left, random.between(1, 4));
      const TensorView part = reader.next(static_cast<std::uint32_t>(count));
      parts.push_back({part.dtype, part.shape, part.data, whole.owner});
      EXPECT_TRUE(lies_in(parts.back(), whole));
      EXPECT_TRUE(check_byte_size(part));
    }
    const auto again = joined(parts);
    ASSERT_TRUE(again);
    expect_equal(*again, whole);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace gradus::batch
