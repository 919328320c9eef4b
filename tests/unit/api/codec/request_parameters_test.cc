#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

Result<DecodedInfer> with(std::string_view rest) {
  return decode(R"({"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1]}],)" +
                std::string(rest) + "}");
}

TEST(RequestParameters, NothingGivenMeansTheDefaults) {
  const auto decoded = decode(one_input("INT8", "[1]", "\"data\":[1]"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const serving::Request& request = decoded->request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.version, "1");
  EXPECT_EQ(request.id, "");
  EXPECT_EQ(request.timeout, std::nullopt);
  EXPECT_EQ(request.min_level, 0);
  EXPECT_EQ(request.max_level, std::numeric_limits<int>::max());
  EXPECT_THAT(request.outputs, IsEmpty());
  EXPECT_EQ(decoded->forms.at(0), Form::kJson);
}

TEST(RequestParameters, TimeoutIsMicrosecondsAsNumberOrDigits) {
  for (const char* timeout : {"1500", "\"1500\""}) {
    const auto decoded = with(R"("parameters":{"timeout":)" + std::string(timeout) + "}");
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->request.timeout, Duration(1500us));
  }
  EXPECT_EQ(with(R"("parameters":{"timeout":31536000000000})")->request.timeout, kLongestTimeout);
}

TEST(RequestParameters, ATimeoutOfZeroIsNone) {
  for (const char* timeout : {"0", "\"0\""}) {
    const auto decoded = with(R"("parameters":{"timeout":)" + std::string(timeout) + "}");
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->request.timeout, std::nullopt);
  }
}

TEST(RequestParameters, LevelsBoundTheLadder) {
  const auto decoded = with(R"("parameters":{"max_level":2,"min_level":1})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->request.min_level, 1);
  EXPECT_EQ(decoded->request.max_level, 2);
}

TEST(RequestParameters, UnknownKeysAndParametersAreIgnored) {
  const auto decoded = with(
      R"("id":"a\u0000b","extra":{"deep":[1,2.5e300,null,{"x":[true,false,"s"]}]},
      "parameters":{"sequence_id":7,"priority":1,"custom":"text","ratio":-0.5,"flag":false},
      "outputs":[{"name":"y","parameters":{"color":"red"},"other":[]}])");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->request.id, std::string_view("a\0b", 3));
  EXPECT_THAT(decoded->request.outputs, ElementsAre("y"));
}

TEST(OutputForms, AnOutputsOwnWishGoesBeforeTheRequests) {
  const auto decoded = with(
      R"("outputs":[{"name":"a"},{"name":"b","parameters":{"binary_data":false}},
      {"name":"c","parameters":{"binary_data":true}}],"parameters":{"binary_data_output":true})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_THAT(decoded->request.outputs, ElementsAre("a", "b", "c"));
  EXPECT_THAT(decoded->forms.named, ElementsAre(Form::kBinary, Form::kJson, Form::kBinary));
}

TEST(OutputForms, TheRequestsWishHoldsForOutputsThatAreNotNamed) {
  for (const char* outputs : {"", ",\"outputs\":[]", ",\"outputs\":null"}) {
    const auto decoded = with(R"("parameters":{"binary_data_output":true})" + std::string(outputs));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->forms.at(0), Form::kBinary);
    EXPECT_EQ(decoded->forms.at(9), Form::kBinary);
  }
}

}  // namespace
}  // namespace gradus::api
