#include "batch/batchable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradus::batch {
namespace {

using ::testing::HasSubstr;

Port port(std::string name, Shape shape) {
  return {std::move(name), DType::kFp32, std::move(shape)};
}

TEST(WhyNotBatchable, NothingWhereEveryTensorHasAVariableFirstDimension) {
  EXPECT_EQ(why_not_batchable({{port("x", {-1, 3}), port("n", {-1})}, {port("y", {-1, 10})}}),
            std::nullopt);
}

TEST(WhyNotBatchable, NamesTheFirstTensorThatHasNone) {
  const Port good = port("x", {-1, 3});
  const std::pair<Model, std::string> cases[] = {
      {{{}, {good}}, "it has no inputs"},
      {{{good, port("m", {1, 3})}, {good}}, "input 'm' has a fixed first dimension 1"},
      {{{good, port("scale", {})}, {good}}, "input 'scale' is a scalar"},
      {{{good}, {good, port("scores", {1, 10})}}, "output 'scores' has a fixed first dimension 1"},
      {{{good}, {port("loss", {})}}, "output 'loss' is a scalar"},
  };
  for (const auto& [model, why] : cases) EXPECT_EQ(why_not_batchable(model), why);
}

TEST(WhyOutputsDoNotFollow, NothingWhereRowsAreAddedAlone) {
  const Model model{{port("x", {-1})}, {port("y", {-1, -1}), port("z", {-1})}};
  EXPECT_EQ(why_outputs_do_not_follow(model, {1, {{1, 4}, {1}}}, {2, {{2, 4}, {2}}}), std::nullopt);
}

TEST(WhyOutputsDoNotFollow, NamesTheOutputAndItsShapes) {
  const Model model{{port("x", {-1})}, {port("y", {-1, -1})}};
  const struct {
    Shape one, two;
    std::string why;
  } cases[] = {
      {{1, 4}, {1, 4}, "output 'y' has shape [1,4] for a batch of 2"},
      {{4, 1}, {4, 2}, "output 'y' has shape [4,1] for a batch of 1"},
      {{}, {2, 4}, "output 'y' has shape [] for a batch of 1"},
      {{1, 1}, {2, 2}, "output 'y' has shape [1,1] for a batch of 1 and [2,2] for 2"},
      {{1, 4}, {2}, "output 'y' has shape [1,4] for a batch of 1 and [2] for 2"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(why_outputs_do_not_follow(model, {1, {c.one}}, {2, {c.two}}), c.why);
  }
}

// Two inputs, `ids` and `mask`, padded in dimension 1, and a third that is not.
Padding padded() {
  Padding padding;
  padding.inputs = {Pad{1, {}}, Pad{1, {}}, std::nullopt};
  return padding;
}

Fit fit_of(std::vector<Shape> shapes, std::vector<std::size_t> outputs = {0},
           const Padding& padding = padded(), std::vector<std::size_t> optional = {}) {
  std::vector<TensorView> inputs;
  for (Shape& shape : shapes) inputs.push_back({DType::kInt64, std::move(shape), {}});
  return fit(padding, inputs, outputs, optional);
}

TEST(Fit, JoinsUnequalBatchesAndLengths) {
  const Fit one = fit_of({{1, 5}, {1, 5}, {1, 9}});
  const Fit other = fit_of({{3, 8}, {3, 8}, {3, 9}});
  EXPECT_EQ(one.group, other.group);
  EXPECT_NE(one.group, 0u);
  EXPECT_EQ(std::tuple(one.samples, one.length), std::tuple(1u, 5));
  EXPECT_EQ(std::tuple(other.samples, other.length), std::tuple(3u, 8));
}

TEST(Fit, TellsApartWhatMayNotBeJoined) {
  const Fit base = fit_of({{1, 5}, {1, 5}, {1, 9}});
  EXPECT_NE(base.group, fit_of({{1, 5}, {1, 5}, {1, 8}}).group) << "a dimension that is not padded";
  EXPECT_NE(base.group, fit_of({{1, 5}, {1, 5}, {1, 9, 1}}).group) << "another rank";
  EXPECT_NE(base.group, fit_of({{1, 5}, {1, 5}, {1, 9}}, {1}).group) << "another output";
  EXPECT_NE(base.group, fit_of({{1, 5}, {1, 5}, {1, 9}}, {0, 1}).group) << "more outputs";
  EXPECT_NE(fit_of({{1, 5}}, {0}, {}).group, fit_of({{1, 6}}, {0}, {}).group) << "no padding";
  EXPECT_NE(fit_of({{1, 2, 3}, {1, 4}}, {0}, {}).group, fit_of({{1, 2}, {1, 3, 4}}, {0}, {}).group);
  EXPECT_NE(fit_of({{1, 2, 7}}, {0}, {}).group, fit_of({{1, 7}}, {0, 3}, {}).group);
  EXPECT_EQ(fit_of({{1, 5}}, {0}, {}).length, 0);
}

TEST(Fit, TellsApartWhatGivesOtherOptionalInputs) {
  const std::vector<Shape> two{{1, 5}, {1, 9}};
  const Fit first = fit_of(two, {0}, {}, {0});
  EXPECT_NE(first.group, 0u);
  EXPECT_EQ(first.group, fit_of({{3, 5}, {3, 9}}, {0}, {}, {0}).group);
  EXPECT_NE(first.group, fit_of(two, {0}, {}, {1}).group);
  EXPECT_NE(first.group, fit_of(two, {0}, {}).group) << "two inputs that the model must have";
  EXPECT_NE(first.group, fit_of({{1, 5}}, {0}, {}).group) << "it is left out";
}

TEST(Fit, LeavesAloneWhatHasNoCommonRows) {
  const std::pair<std::vector<Shape>, std::uint32_t> cases[] = {
      {{}, 1},                        // no inputs
      {{{}, {2, 5}, {2, 9}}, 1},      // a scalar
      {{{2, 5}, {3, 5}, {2, 9}}, 1},  // unequal batches
      {{{0, 5}, {0, 5}, {0, 9}}, 1},  // no samples
      {{{2, 5}, {2, 6}, {2, 9}}, 2},  // unequal padded lengths
      {{{2, 5}, {2, 5}, {2, 0}}, 1},  // no elements
      {{{2, 0}, {2, 0}, {2, 9}}, 1},  // no elements in the padded dimension
      {{{3000000000, 0}, {3000000000, 0}, {3000000000, 0}}, 1},  // whatever it claims
  };
  for (const auto& [shapes, samples] : cases) {
    const Fit alone = fit_of(shapes);
    EXPECT_EQ(alone.group, 0u);
    EXPECT_EQ(alone.samples, samples);
    EXPECT_EQ(alone.length, 0);
  }
}

}  // namespace
}  // namespace gradus::batch
