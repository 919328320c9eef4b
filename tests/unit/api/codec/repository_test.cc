// What clients ask of the repository, and what they are shown of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/codec/base64.h"
#include "api/codec/metadata.h"
#include "api/codec/repository_request.h"
#include "api/codec/statistics_json.h"

namespace gradus::api {
namespace {

using serving::VersionState;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

std::span<const std::byte> body_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Base64, IsReadWithItsPadding) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("+/8A"), std::string("\xfb\xff\0", 3));
}

TEST(Base64, AnythingElseIsRefused) {
  for (const std::string text : {"Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zm9v\n",
                                 "Zm 9vYg=", "Zm8=Zm8=", "Zh==", "Zm9=", "Z-_v", "Zm9\xff"}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

TEST(IndexRequest, MayAskForReadyOnesOnly) {
  EXPECT_EQ(decode_index_request({}), false);
  EXPECT_EQ(decode_index_request(body_of("{}")), false);
  EXPECT_EQ(decode_index_request(body_of(R"({"ready":false})")), false);
  EXPECT_EQ(decode_index_request(body_of(R"( {"x":[1,{}], "ready" : true} )")), true);
}

TEST(LoadRequest, MayBringConfigurationAndFiles) {
  const auto plain = decode_load_request("m", {}, 0);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "m");
  EXPECT_EQ(plain->config, std::nullopt);
  const auto load = decode_load_request("m", body_of(R"({"parameters":{
      "file:1/model.onnx":"AP8=","config":"{\"max_batch_size\":8}","file:labels.txt":""},
      "later":null})"),
                                        0);
  ASSERT_TRUE(load) << load.error().message;
  EXPECT_EQ(load->config, R"({"max_batch_size":8})");
  EXPECT_THAT(load->files, UnorderedElementsAre(Pair("1/model.onnx", std::string("\0\xff", 2)),
                                                Pair("labels.txt", "")));
  EXPECT_TRUE(decode_load_request("m", body_of(R"({"parameters":null})"), 0));
}

TEST(UnloadRequest, MaySpeakOfDependents) {
  EXPECT_TRUE(decode_unload_request({}));
  EXPECT_TRUE(decode_unload_request(body_of("{}")));
  EXPECT_TRUE(decode_unload_request(body_of(R"({"parameters":{"unload_dependents":true}})")));
}

TEST(RepositoryRequests, WhatIsWrongIsNamed) {
  const auto index = [](std::string_view body) {
    const auto read = decode_index_request(body_of(body));
    return read ? "" : read.error().message;
  };
  const auto load = [](std::string_view body) {
    const auto read = decode_load_request("m", body_of(body), 0);
    return read ? "" : read.error().message;
  };
  const auto unload = [](std::string_view body) {
    const auto read = decode_unload_request(body_of(body));
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(index(R"({"ready":1})"), "'ready' is 1; expected true or false");
  EXPECT_EQ(index(R"({"ready":true,"ready":true})"), "'ready' comes twice");
  EXPECT_EQ(index("[]"), "the request must be a JSON object");
  EXPECT_EQ(index("{}{}"), "malformed JSON: '{}' follows the request at byte 2");
  EXPECT_THAT(index(R"({"ready":true)"), HasSubstr("malformed JSON"));
  EXPECT_THAT(index(R"({"x":tru})"), HasSubstr("malformed JSON"));
  EXPECT_EQ(load(R"({"parameters":[]})"), "'parameters' is an array; expected an object");
  EXPECT_EQ(load(R"({"parameters":{"config":{}}})"),
            "parameter 'config' is an object; expected a string");
  EXPECT_EQ(load(R"({"parameters":{"config":"","config":""}})"), "parameter 'config' comes twice");
  EXPECT_EQ(load(R"({"parameters":{"file:a":"","file:a":""}})"), "parameter 'file:a' comes twice");
  EXPECT_EQ(load(R"({"parameters":{"file:1/model.onnx":"AP8"}})"),
            "parameter 'file:1/model.onnx' is no base64");
  for (const std::string name : {"confg", "file:", "files:a"}) {
    EXPECT_EQ(load(R"({"parameters":{")" + name + R"(":"x"}})"),
              "unknown parameter '" + name +
                  "'; expected 'config' or 'file:PATH', like 'file:1/model.onnx'");
  }
  EXPECT_EQ(unload(R"({"parameters":{"unload_dependents":"yes"}})"),
            "parameter 'unload_dependents' is \"yes\"; expected true or false");
  EXPECT_EQ(unload(R"({"parameters":{"config":""}})"),
            "unknown parameter 'config'; expected 'unload_dependents'");
}

TEST(IndexJson, HasEachVersionWithItsState) {
  EXPECT_EQ(index_json({}), "[]");
  EXPECT_EQ(index_json({{"a", "1", VersionState::kReady, ""},
                        {"a", "2", VersionState::kLoading, ""},
                        {"b\"", "", VersionState::kUnavailable, "no \"file\""}}),
            R"([{"name":"a","version":"1","state":"READY","reason":""},)"
            R"({"name":"a","version":"2","state":"LOADING","reason":""},)"
            R"({"name":"b\"","state":"UNAVAILABLE","reason":"no \"file\""}])");
}

TEST(StatisticsJson, HasTritonsBucketsAndTheLevelsBesideThem) {
  EXPECT_EQ(statistics_json({}), R"({"model_stats":[]})");
  serving::ModelStatistics model{.name = "m",
                                 .version = "3",
                                 .last_inference_ms = 1700000000123,
                                 .inference_count = 9,
                                 .execution_count = 2,
                                 .success = {3, 300},
                                 .fail = {1, 40},
                                 .queue = {3, 50},
                                 .compute_input = {3, 6},
                                 .compute_infer = {3, 70},
                                 .compute_output = {3, 8}};
  model.batches = {{1, {1, 0}, {1, 20}, {1, 0}}, {8, {1, 5}, {1, 25}, {1, 4}}};
  model.levels = {{1, "cpu", 9, 2, {3, 300}, {3, 50}, {3, 70}}};
  EXPECT_EQ(
      statistics_json({model, {.name = "n", .version = "1"}}),
      R"({"model_stats":[{"name":"m","version":"3","last_inference":1700000000123,)"
      R"("inference_count":9,"execution_count":2,"inference_stats":{)"
      R"("success":{"count":3,"ns":300},"fail":{"count":1,"ns":40},"queue":{"count":3,"ns":50},)"
      R"("compute_input":{"count":3,"ns":6},"compute_infer":{"count":3,"ns":70},)"
      R"("compute_output":{"count":3,"ns":8},"cache_hit":{"count":0,"ns":0},)"
      R"("cache_miss":{"count":0,"ns":0}},"response_stats":{},"batch_stats":[)"
      R"({"batch_size":1,"compute_input":{"count":1,"ns":0},"compute_infer":{"count":1,"ns":20},)"
      R"("compute_output":{"count":1,"ns":0}},)"
      R"({"batch_size":8,"compute_input":{"count":1,"ns":5},"compute_infer":{"count":1,"ns":25},)"
      R"("compute_output":{"count":1,"ns":4}}],"memory_usage":[],"gradus_levels":[)"
      R"({"level":1,"name":"cpu","inference_count":9,"execution_count":2,)"
      R"("success":{"count":3,"ns":300},"queue":{"count":3,"ns":50},)"
      R"("compute_infer":{"count":3,"ns":70}}]},)"
      R"({"name":"n","version":"1","last_inference":0,"inference_count":0,"execution_count":0,)"
      R"("inference_stats":{"success":{"count":0,"ns":0},"fail":{"count":0,"ns":0},)"
      R"("queue":{"count":0,"ns":0},"compute_input":{"count":0,"ns":0},)"
      R"("compute_infer":{"count":0,"ns":0},"compute_output":{"count":0,"ns":0},)"
      R"("cache_hit":{"count":0,"ns":0},"cache_miss":{"count":0,"ns":0}},"response_stats":{},)"
      R"("batch_stats":[],"memory_usage":[],"gradus_levels":[]}]})");
}

}  // namespace
}  // namespace gradus::api
