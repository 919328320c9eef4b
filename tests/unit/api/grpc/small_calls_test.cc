// The calls that need no port: bytes in, what the engine was asked, bytes out.
#include "api/grpc/small_calls.h"

#include <gmock/gmock.h>
#include <grpc_service.pb.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/api/fake_engine.h"

namespace gradus::api {
namespace {

using serving::VersionState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

template <class Calls>
auto find(const Calls& calls, std::string_view method) {
  return std::ranges::find_if(calls, [&](const auto& call) { return method == call.method; });
}

class SmallCallsTest : public testing::Test {
 protected:
  template <class Response>
  Result<Response> ask(const char* method, const google::protobuf::Message& request) {
    auto text = find(small_calls(), method)->answer(request.SerializeAsString(), engine_);
    if (!text) return tl::unexpected(std::move(text.error()));
    Response response;
    EXPECT_TRUE(response.ParseFromString(*text));
    return response;
  }

  // Nothing: not answered yet.
  std::optional<Result<std::string>> start(const char* method, const std::string& request) {
    auto answer = std::make_shared<std::optional<Result<std::string>>>();
    find(slow_calls(), method)->start(request, engine_, [answer](Result<std::string> text) {
      *answer = std::move(text);
    });
    return *answer;
  }

  FakeEngine engine_;
};

TEST_F(SmallCallsTest, TheIndexHasVersionsStatesAndReasons) {
  engine_.indexed = {{"a", "1", VersionState::kUnavailable, "gone"},
                     {"a", "2", VersionState::kReady, ""}};
  inference::RepositoryIndexRequest request;
  const auto all = ask<inference::RepositoryIndexResponse>("RepositoryIndex", request);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->models_size(), 2);
  EXPECT_EQ(all->models(0).name(), "a");
  EXPECT_EQ(all->models(0).version(), "1");
  EXPECT_EQ(all->models(0).state(), "UNAVAILABLE");
  EXPECT_EQ(all->models(0).reason(), "gone");
  request.set_ready(true);
  const auto ready = ask<inference::RepositoryIndexResponse>("RepositoryIndex", request);
  ASSERT_EQ(ready->models_size(), 1);
  EXPECT_EQ(ready->models(0).version(), "2");
  EXPECT_EQ(ready->models(0).state(), "READY");
  request.set_repository_name("mine");
  EXPECT_EQ(ask<inference::RepositoryIndexResponse>("RepositoryIndex", request).error().code,
            Code::kInvalid);
}

TEST_F(SmallCallsTest, TheConfigurationIsTheEnginesAsAMessage) {
  inference::ModelConfigRequest request;
  request.set_name("m");
  const auto answer = ask<inference::ModelConfigResponse>("ModelConfig", request);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->config().name(), "m");
  request.set_version("9");
  EXPECT_EQ(ask<inference::ModelConfigResponse>("ModelConfig", request).error().code,
            Code::kNotFound);
}

TEST_F(SmallCallsTest, StatisticsHaveAllOfTritonsBuckets) {
  engine_.counted = {{.name = "m",
                      .version = "3",
                      .last_inference_ms = 7,
                      .inference_count = 9,
                      .execution_count = 2,
                      .success = {3, 300},
                      .fail = {1, 40},
                      .queue = {3, 50},
                      .compute_input = {3, 6},
                      .compute_infer = {3, 70},
                      .compute_output = {3, 8},
                      .batches = {{8, {1, 5}, {1, 25}, {1, 4}}},
                      .levels = {{1, "cpu", 9, 2, {3, 300}, {3, 50}, {3, 70}}}}};
  inference::ModelStatisticsRequest request;
  request.set_name("m");
  request.set_version("3");
  const auto answer = ask<inference::ModelStatisticsResponse>("ModelStatistics", request);
  ASSERT_TRUE(answer);
  EXPECT_THAT(engine_.asked_statistics, ElementsAre(Pair("m", "3")));
  EXPECT_EQ(answer->ShortDebugString(),
            "model_stats { name: \"m\" version: \"3\" last_inference: 7 inference_count: 9 "
            "execution_count: 2 inference_stats { success { count: 3 ns: 300 } "
            "fail { count: 1 ns: 40 } queue { count: 3 ns: 50 } compute_input { count: 3 ns: 6 } "
            "compute_infer { count: 3 ns: 70 } compute_output { count: 3 ns: 8 } cache_hit { } "
            "cache_miss { } } batch_stats { batch_size: 8 compute_input { count: 1 ns: 5 } "
            "compute_infer { count: 1 ns: 25 } compute_output { count: 1 ns: 4 } } }");
  request.set_name("nosuch");
  EXPECT_EQ(ask<inference::ModelStatisticsResponse>("ModelStatistics", request).error().code,
            Code::kNotFound);
}

TEST_F(SmallCallsTest, ALoadIsAnsweredWhenItHasEnded) {
  std::optional<serving::Managed> under_way;
  engine_.on_managed = [&](serving::Managed done) { under_way = std::move(done); };
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("m");
  (*request.mutable_parameters())["config"].set_string_param("{}");
  (*request.mutable_parameters())["file:1/model.onnx"].set_bytes_param(std::string("\0\xff", 2));
  std::optional<Result<std::string>> answer;
  find(slow_calls(), "RepositoryModelLoad")
      ->start(request.SerializeAsString(), engine_,
              [&](Result<std::string> text) { answer = std::move(text); });
  EXPECT_EQ(engine_.last_load->name, "m");
  EXPECT_EQ(engine_.last_load->config, "{}");
  EXPECT_THAT(engine_.last_load->files,
              ElementsAre(Pair("1/model.onnx", std::string("\0\xff", 2))));
  EXPECT_FALSE(answer) << "it is still loading";
  (*under_way)(fail(Code::kUnavailable, "no memory"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().code, Code::kUnavailable);
  EXPECT_EQ(answer->error().message, "no memory");
}

TEST_F(SmallCallsTest, AnUnloadNamesItsModel) {
  inference::RepositoryModelUnloadRequest request;
  request.set_model_name("m");
  (*request.mutable_parameters())["unload_dependents"].set_bool_param(true);
  EXPECT_EQ(start("RepositoryModelUnload", request.SerializeAsString()).value().value(), "");
  EXPECT_EQ(engine_.last_unload, "m");
}

TEST_F(SmallCallsTest, RequestsThatMakeNoSenseAreNamed) {
  const auto load = [&](const char* name, const inference::ModelRepositoryParameter& value) {
    inference::RepositoryModelLoadRequest request;
    (*request.mutable_parameters())[name] = value;
    return start("RepositoryModelLoad", request.SerializeAsString()).value().error().message;
  };
  inference::ModelRepositoryParameter text, bytes;
  text.set_string_param("x");
  bytes.set_bytes_param("x");
  EXPECT_EQ(load("config", bytes), "parameter 'config': expected string_param");
  EXPECT_EQ(load("file:a", text), "parameter 'file:a': expected bytes_param");
  EXPECT_THAT(load("confg", text), StartsWith("unknown parameter 'confg'"));
  inference::RepositoryModelUnloadRequest unload;
  (*unload.mutable_parameters())["unload_dependents"] = text;
  EXPECT_EQ(start("RepositoryModelUnload", unload.SerializeAsString()).value().error().message,
            "parameter 'unload_dependents': expected bool_param");
  unload.clear_parameters();
  unload.set_repository_name("mine");
  EXPECT_THAT(start("RepositoryModelUnload", unload.SerializeAsString()).value().error().message,
              HasSubstr("repository 'mine'"));
  for (const char* method : {"RepositoryModelLoad", "RepositoryModelUnload"}) {
    EXPECT_EQ(start(method, "\xff\xff\xff").value().error().message,
              "the message is no " + std::string(method) + "Request");
  }
  EXPECT_FALSE(engine_.last_load || engine_.last_unload);
}

}  // namespace
}  // namespace gradus::api
