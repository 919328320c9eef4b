// The repository's paths: what reaches the engine, and what its answers become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "fake_engine.h"

namespace gradus::api {
namespace {

using serving::VersionState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class RepositoryRoutesTest : public testing::Test {
 protected:
  HttpResponse get(std::string_view target) { return Call("GET", target).on(routes_); }
  HttpResponse post(std::string_view target, std::string body = "") {
    return Call("POST", target).body(std::move(body)).on(routes_);
  }

  FakeEngine engine_;
  V2Routes routes_{engine_, {}, "9.8.7"};
};

TEST_F(RepositoryRoutesTest, TheIndexHasAllOrThoseThatAreReady) {
  engine_.indexed = {{"a", "1", VersionState::kUnavailable, "gone"},
                     {"a", "2", VersionState::kReady, ""}};
  const std::string ready = R"({"name":"a","version":"2","state":"READY","reason":""})";
  const std::string all =
      R"([{"name":"a","version":"1","state":"UNAVAILABLE","reason":"gone"},)" + ready + "]";
  EXPECT_EQ(post("/v2/repository/index").head, all);
  EXPECT_EQ(post("/v2/repository/index", R"({"ready":false})").head, all);
  EXPECT_EQ(post("/v2/repository/index", R"({"ready":true})").head, "[" + ready + "]");
  EXPECT_EQ(post("/v2/repository/index", R"({"ready":0})").status, 400);
  EXPECT_EQ(get("/v2/repository/index").status, 405);
  const HttpResponse named = post("/v2/repository/mine/index");
  EXPECT_EQ(named.status, 400);
  EXPECT_THAT(named.head, HasSubstr("repository 'mine'"));
}

TEST_F(RepositoryRoutesTest, ALoadIsAnsweredWithNothingWhenItHasEnded) {
  std::optional<serving::Managed> under_way;
  engine_.on_managed = [&](serving::Managed done) { under_way = std::move(done); };
  std::optional<HttpResponse> answer;
  struct Sink final : ReplySink {
    explicit Sink(std::optional<HttpResponse>& to) : answer(to) {}
    void send(HttpResponse response) override { answer = std::move(response); }
    std::optional<HttpResponse>& answer;
  };
  HttpRequest request;
  request.method = "POST";
  request.target = "/v2/repository/models/a%20b/load";
  routes_.handle(request, Reply(std::make_shared<Sink>(answer)));
  ASSERT_TRUE(under_way);
  EXPECT_EQ(engine_.last_load->name, "a b");
  EXPECT_FALSE(answer) << "it is still loading";
  (*under_way)({});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(body_of(*answer), "");
}

TEST_F(RepositoryRoutesTest, WhatALoadBringsReachesTheEngine) {
  const HttpResponse response =
      post("/v2/repository/models/m/load",
           R"({"parameters":{"config":"{}","file:1/model.onnx":"Zm9v"}})");
  EXPECT_EQ(response.status, 200);
  ASSERT_TRUE(engine_.last_load);
  EXPECT_EQ(engine_.last_load->config, "{}");
  EXPECT_THAT(engine_.last_load->files, ElementsAre(Pair("1/model.onnx", "foo")));
}

TEST_F(RepositoryRoutesTest, LargeFilesAreDecodedBesideTheServersThreads) {
  std::promise<void> asked;  // the answer is not to come while that is read
  std::promise<std::thread::id> loaded;
  engine_.on_managed = [&](const serving::Managed& done) {
    asked.get_future().wait();
    done({});
    loaded.set_value(std::this_thread::get_id());
  };
  Call load("POST", "/v2/repository/models/m/load");
  load.body(R"({"parameters":{"config":"{}","file:1/model.onnx":")" + std::string(400'000, 'A') +
            "\"}}");
  EXPECT_EQ(load.on(routes_).status, 0) << "it is answered later";
  asked.set_value();
  EXPECT_NE(loaded.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(engine_.last_load->files.at("1/model.onnx"), std::string(300'000, '\0'));
}

TEST_F(RepositoryRoutesTest, AnUnloadNamesItsModel) {
  EXPECT_EQ(post("/v2/repository/models/m/unload", R"({"parameters":{"unload_dependents":false}})")
                .status,
            200);
  EXPECT_EQ(engine_.last_unload, "m");
}

TEST_F(RepositoryRoutesTest, WhatCannotBeDoneSaysWhy) {
  for (const std::string what : {"load", "unload"}) {
    const std::string path = "/v2/repository/models/m/" + what;
    engine_.on_managed = [](const serving::Managed& done) {
      done(fail(Code::kInvalid, "the mode is none"));
    };
    HttpResponse response = post(path);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.head, R"({"error":"the mode is none"})");
    engine_.on_managed = [](const serving::Managed& done) { done(fail(Code::kNotFound, "no m")); };
    EXPECT_EQ(post(path).status, 404);
    engine_.on_managed = [](const serving::Managed& done) { done(fail(Code::kUnavailable, "x")); };
    EXPECT_EQ(post(path).status, 503);
    EXPECT_EQ(post(path, "{").status, 400);
    EXPECT_EQ(post("/v2/repository/mine/models/m/" + what).status, 400);
  }
  EXPECT_EQ(post("/v2/repository/models/..%2fm/load").status, 404);
}

TEST_F(RepositoryRoutesTest, ConfigurationAndStatisticsAreOfOneModelOrOfAll) {
  engine_.counted = {{.name = "m", .version = "3"}};
  EXPECT_EQ(get("/v2/models/m/config").head, R"({"name":"m"})");
  EXPECT_EQ(get("/v2/models/m/versions/3/config").head, R"({"name":"m"})");
  EXPECT_EQ(get("/v2/models/m/versions/9/config").status, 404);
  for (const std::string path :
       {"/v2/models/stats", "/v2/models/m/stats", "/v2/models/m/versions/1/stats"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_THAT(response.head, HasSubstr(R"({"model_stats":[{"name":"m","version":"3",)"));
  }
  EXPECT_THAT(engine_.asked_statistics, ElementsAre(Pair("", ""), Pair("m", ""), Pair("m", "1")));
  EXPECT_EQ(get("/v2/models/nosuch/stats").status, 404);
  EXPECT_EQ(post("/v2/models/stats").status, 405);
}

}  // namespace
}  // namespace gradus::api
