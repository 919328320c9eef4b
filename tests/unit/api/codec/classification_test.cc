// The best classes of an output, and the JSON by which clients set things.
#include "api/codec/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "api/codec/control_json.h"
#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
Tensor tensor_of(DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return make_tensor(dtype, std::move(shape), {bytes.begin(), bytes.end()});
}

std::vector<std::string> texts(const Result<Tensor>& classes) {
  EXPECT_TRUE(classes) << classes.error().message;
  const auto count = element_count(classes->shape);
  const auto elements = bytes_elements(classes->data, *count);
  EXPECT_TRUE(elements);
  return {elements->begin(), elements->end()};
}

TEST(Classification, EachSampleHasItsBestFirst) {
  const auto values = tensor_of<float>(DType::kFp32, {2, 3}, {0.1f, 0.7f, 0.2f, 5.0f, -1.0f, 5.5f});
  const auto two = best_classes(values, 2, true, {});
  EXPECT_THAT(texts(two), ElementsAre("0.700000:1", "0.200000:2", "5.500000:2", "5.000000:0"));
  EXPECT_EQ(two->dtype, DType::kBytes);
  EXPECT_THAT(two->shape, ElementsAre(2, 2));
  const auto whole = best_classes(values, 2, false, {});
  EXPECT_THAT(texts(whole), ElementsAre("5.500000:5", "5.000000:3")) << "without a batch";
  EXPECT_THAT(whole->shape, ElementsAre(2));
}

TEST(Classification, MoreClassesThanValuesAreAllOfThem) {
  const auto values = tensor_of<std::int8_t>(DType::kInt8, {1, 1, 2}, {-3, 4});
  const auto classes = best_classes(values, 1000, true, {});
  EXPECT_THAT(texts(classes), ElementsAre("4:1", "-3:0"));
  EXPECT_THAT(classes->shape, ElementsAre(1, 2));
  EXPECT_THAT(texts(best_classes(tensor_of<double>(DType::kFp64, {}, {2.5}), 3, true, {})),
              ElementsAre("2.500000:0"));
  const auto none = best_classes(make_tensor(DType::kFp32, {1ll << 40, 0}, {}), 3, true, {});
  EXPECT_THAT(texts(none), IsEmpty());
}

TEST(Classification, LabelsFollowAsFarAsThereAreSome) {
  const std::vector<std::string> labels = {"shirt", "", "bag"};
  const auto values = tensor_of<std::uint64_t>(DType::kUint64, {4}, {3, 2, 1, ~0ull});
  EXPECT_THAT(texts(best_classes(values, 4, false, labels)),
              ElementsAre("18446744073709551615:3", "3:0:shirt", "2:1", "1:2:bag"));
}

TEST(Classification, TiesGoByIndexAndNanLast) {
  const auto values = tensor_of<float>(DType::kFp32, {5}, {1.0f, NAN, 1.0f, -INFINITY, 1.0f});
  const auto classes = texts(best_classes(values, 5, false, {}));
  ASSERT_EQ(classes.size(), 5u);
  EXPECT_EQ(classes[0], "1.000000:0");
  EXPECT_EQ(classes[1], "1.000000:2");
  EXPECT_EQ(classes[2], "1.000000:4");
  EXPECT_EQ(classes[3], "-inf:3");
  EXPECT_THAT(classes[4], HasSubstr("nan:1"));
}

TEST(Classification, SomeTypesHaveNoClasses) {
  for (const DType dtype : {DType::kBool, DType::kFp16, DType::kBf16, DType::kBytes}) {
    const auto classes = best_classes(make_tensor(dtype, {0}, {}), 1, false, {});
    ASSERT_FALSE(classes);
    EXPECT_EQ(classes.error().message, "parameter 'classification': values of type " +
                                           std::string(dtype_name(dtype)) + " have no classes");
  }
}

TEST(Classification, IsAWishOfANamedOutput) {
  const auto decoded = decode(R"({"inputs":[],"outputs":[{"name":"a"},)"
                              R"({"name":"b","parameters":{"classification":3}}]})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_EQ(decoded->wishes.named.size(), 2u);
  EXPECT_EQ(decoded->wishes.named[0].classes, 0u);
  EXPECT_EQ(decoded->wishes.named[1].classes, 3u);
  EXPECT_THAT(decode(R"({"inputs":[],"outputs":[{"name":"a"}]})")->wishes.named, IsEmpty());
}

std::span<const std::byte> body(std::string_view json) { return std::as_bytes(std::span(json)); }

TEST(ControlJson, ARegionHasKeyOffsetAndSize) {
  const auto region = decode_region("r", body(R"({"byte_size":9,"x":[1],"key":"/k","offset":4})"));
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->name, "r");
  EXPECT_EQ(region->key, "/k");
  EXPECT_EQ(region->offset, 4u);
  EXPECT_EQ(region->byte_size, 9u);
  const std::pair<const char*, const char*> table[] = {
      {"", "malformed JSON"},
      {"[]", "the region must be a JSON object"},
      {R"({"byte_size":9})", "'key' is missing"},
      {R"({"key":"/k"})", "'byte_size' is missing"},
      {R"({"key":"/k","byte_size":-1})", "'byte_size' is -1"},
      {R"({"key":"/k","byte_size":1,"offset":18446744073709551615})", "'offset' is 184467"},
      {R"({"key":"/k","key":"/k","byte_size":1})", "'key' comes twice"},
  };
  for (const auto& [json, text] : table) {
    const auto bad = decode_region("r", body(json));
    ASSERT_FALSE(bad) << json;
    EXPECT_THAT(bad.error().message, HasSubstr(text));
  }
}

TEST(ControlJson, SettingsGoBothWays) {
  const std::string log = R"({"log_format":"default","log_info":false,"log_verbose_level":2})";
  const auto values = decode_log_settings(body(log));
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(log_settings_json(*values), log);
  EXPECT_FALSE(decode_log_settings(body(R"({"log_info":null})")));
  EXPECT_FALSE(decode_log_settings(body(R"({"log_info":1.5})")));
  const auto trace = decode_trace_settings(body(
      R"({"trace_level":["TIMESTAMPS","OFF"],"trace_rate":"5","trace_count":-1,"trace_file":null})"));
  ASSERT_TRUE(trace) << trace.error().message;
  const TraceValues expected = {{"trace_level", std::vector<std::string>{"TIMESTAMPS", "OFF"}},
                                {"trace_rate", std::vector<std::string>{"5"}},
                                {"trace_count", std::vector<std::string>{"-1"}},
                                {"trace_file", std::nullopt}};
  EXPECT_EQ(*trace, expected);
  EXPECT_FALSE(decode_trace_settings(body(R"({"trace_rate":{}})")));
  EXPECT_EQ(trace_settings_json({{"trace_level", {"OFF"}}, {"trace_rate", {"7"}}}),
            R"({"trace_level":["OFF"],"trace_rate":"7"})");
}

}  // namespace
}  // namespace gradus::api
