// The paths that only ask, and which methods each path takes.
#include "api/http/v2_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/http/metrics_routes.h"
#include "fake_engine.h"

namespace gradus::api {
namespace {

using testing::HasSubstr;

class V2RoutesTest : public testing::Test {
 protected:
  HttpResponse get(std::string_view target) { return Call("GET", target).on(routes_); }

  FakeEngine engine_;
  V2Routes routes_{engine_, {}, "9.8.7"};
};

TEST_F(V2RoutesTest, HealthIsSaidInStatusAndBody) {
  EXPECT_EQ(get("/v2/health/live").status, 200);
  EXPECT_EQ(get("/v2/health/live").head, R"({"live":true})");
  EXPECT_EQ(get("/v2/health/ready").status, 200);
  EXPECT_EQ(get("/v2/health/ready").head, R"({"ready":true})");
  engine_.is_ready = engine_.is_live = false;
  EXPECT_EQ(get("/v2/health/live").status, 503);
  EXPECT_EQ(get("/v2/health/live").head, R"({"live":false})");
  EXPECT_EQ(get("/v2/health/ready").status, 503);
  EXPECT_EQ(get("/v2/health/ready").head, R"({"ready":false})");
}

TEST_F(V2RoutesTest, TheServerTellsItsVersion) {
  const HttpResponse response = get("/v2");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.head, HasSubstr(R"("version":"9.8.7")"));
}

TEST_F(V2RoutesTest, AModelIsDescribed) {
  for (const std::string path : {"/v2/models/m", "/v2/models/m/versions/3"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.head, HasSubstr(R"("name":"m")"));
    EXPECT_THAT(response.head, HasSubstr(R"("versions":["1","3"])"));
  }
  EXPECT_THAT(get("/v2/models/m/ladder").head, HasSubstr(R"("current_level":1)"));
}

TEST_F(V2RoutesTest, ModelsAreListed) {
  EXPECT_EQ(get("/v2/models").status, 200);
  EXPECT_EQ(get("/v2/models").head, R"({"models":["broken","m"]})");
}

TEST_F(V2RoutesTest, WorkersAreListed) {
  EXPECT_EQ(get("/v2/workers").status, 200);
  EXPECT_THAT(get("/v2/workers").head, HasSubstr(R"("workers":[])"));
}

TEST_F(V2RoutesTest, AModelIsReadyOrSaysWhyNot) {
  EXPECT_EQ(get("/v2/models/m/ready").status, 200);
  EXPECT_THAT(get("/v2/models/m/ready").head, HasSubstr(R"("ready":true)"));
  engine_.unavailable = true;
  const HttpResponse response = get("/v2/models/m/versions/1/ready");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.head, R"({"error":"level 1: no memory"})");
  EXPECT_EQ(header_of(response, "Retry-After"), "1");
}

TEST_F(V2RoutesTest, UnknownModelsVersionsAndPathsAreNotFound) {
  for (const std::string path :
       {"/v2/models/other", "/v2/models/other/ready", "/v2/models/other/ladder",
        "/v2/models/m/versions/2", "/v2/models/m/versions/x", "/v2/models/..%2f..", "/nowhere"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_TRUE(response.head.starts_with("{\"error\":\"")) << response.head;
  }
  EXPECT_EQ(get("/v2/models/%zz").status, 400);
}

TEST_F(V2RoutesTest, EachPathTakesItsMethodsOnly) {
  const std::string gets[] = {"/v2",        "/v2/health/live", "/v2/health/ready",
                              "/v2/models", "/v2/models/m",    "/v2/models/m/ready"};
  for (const std::string& path : gets) {
    EXPECT_EQ(Call("HEAD", path).on(routes_).status, 200) << path;
    for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "get", "BREW"}) {
      const HttpResponse response = Call(method, path).on(routes_);
      EXPECT_EQ(response.status, 405) << method << " " << path;
      EXPECT_EQ(header_of(response, "Allow"), "GET, HEAD");
    }
  }
  for (const std::string method : {"GET", "HEAD", "PUT", "post"}) {
    const HttpResponse response = Call(method, "/v2/models/m/infer").on(routes_);
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_EQ(header_of(response, "Allow"), "POST");
  }
  EXPECT_EQ(Call("HEAD", "/v2/models/m/ladder").on(routes_).status, 200);
  const HttpResponse response = Call("PUT", "/v2/models/m/ladder").on(routes_);
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(header_of(response, "Allow"), "GET, HEAD, POST");
  EXPECT_EQ(Call("BREW", "/nowhere").on(routes_).status, 404);
}

TEST(MetricsRoutes, AnswersMetricsAndNothingElse) {
  const FakeEngine engine;
  MetricsRoutes routes(engine, [] { return std::vector<metrics::ReceiverView>(2); });
  const HttpResponse response = Call("GET", "/metrics?all").on(routes);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(response.head, "receivers 2\n");
  EXPECT_EQ(Call("HEAD", "/metrics").on(routes).status, 200);
  EXPECT_EQ(Call("POST", "/metrics").on(routes).status, 405);
  EXPECT_EQ(Call("GET", "/").on(routes).status, 404);
  EXPECT_EQ(Call("GET", "/v2").on(routes).status, 404);
}

}  // namespace
}  // namespace gradus::api
