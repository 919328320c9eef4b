#include "api/http/v2_path.h"

#include <gtest/gtest.h>

namespace gradus::api {
namespace {

TEST(V2Path, KnowsEveryPath) {
  const struct {
    std::string target;
    Endpoint endpoint;
    std::string model, version;
  } table[] = {
      {"/v2", Endpoint::kServer, "", ""},
      {"/v2?a=b", Endpoint::kServer, "", ""},
      {"/v2/health/live", Endpoint::kLive, "", ""},
      {"/v2/health/ready", Endpoint::kReady, "", ""},
      {"/v2/workers", Endpoint::kWorkers, "", ""},
      {"/v2/models", Endpoint::kModels, "", ""},
      {"/v2/models/m", Endpoint::kModel, "m", ""},
      {"/v2/models/m/ready", Endpoint::kModelReady, "m", ""},
      {"/v2/models/m/ladder?x", Endpoint::kLadder, "m", ""},
      {"/v2/models/m/infer", Endpoint::kInfer, "m", ""},
      {"/v2/models/m/versions/12", Endpoint::kModel, "m", "12"},
      {"/v2/models/m/versions/12/ready", Endpoint::kModelReady, "m", "12"},
      {"/v2/models/m/versions/12/ladder", Endpoint::kLadder, "m", "12"},
      {"/v2/models/m/versions/12/infer", Endpoint::kInfer, "m", "12"},
      {"/v2/models/versions/versions/1/infer", Endpoint::kInfer, "versions", "1"},
      {"/v2/models/infer/infer", Endpoint::kInfer, "infer", ""},
      {"/v2/models/a%20b%C3%A9%2b/infer", Endpoint::kInfer, "a bé+", ""},
      {"/v2/models/..a/infer", Endpoint::kInfer, "..a", ""},
  };
  for (const auto& row : table) {
    const auto route = parse_route(row.target);
    ASSERT_TRUE(route) << row.target << ": " << route.error().message;
    EXPECT_EQ(route->endpoint, row.endpoint) << row.target;
    EXPECT_EQ(route->model, row.model) << row.target;
    EXPECT_EQ(route->version, row.version) << row.target;
  }
}

TEST(V2Path, RefusesEverythingElse) {
  const struct {
    std::string target;
    Code code;
  } table[] = {
      {"", Code::kNotFound},
      {"/", Code::kNotFound},
      {"*", Code::kNotFound},
      {"v2", Code::kNotFound},
      {"/v2/", Code::kNotFound},
      {"/v1/models/m", Code::kNotFound},
      {"/V2", Code::kNotFound},
      {"//v2", Code::kNotFound},
      {"/v2/health", Code::kNotFound},
      {"/v2/health/live/", Code::kNotFound},
      {"/v2/models/", Code::kNotFound},
      {"/v2/models//infer", Code::kNotFound},
      {"/v2/models/m/", Code::kNotFound},
      {"/v2/models/m/inferx", Code::kNotFound},
      {"/v2/models/m/infer/", Code::kNotFound},
      {"/v2/models/m/infer/more", Code::kNotFound},
      {"/v2/models/m/versions", Code::kNotFound},
      {"/v2/models/m/versions/", Code::kNotFound},
      {"/v2/models/m/versions/x/infer", Code::kNotFound},
      {"/v2/models/m/versions/-1", Code::kNotFound},
      {"/v2/models/m/versions/1%32", Code::kNotFound},
      {"/v2/models/m/versions/1/versions/2", Code::kNotFound},
      {"/v2/models/./infer", Code::kNotFound},
      {"/v2/models/../infer", Code::kNotFound},
      {"/v2/models/%2e%2e/infer", Code::kNotFound},
      {"/v2/models/..%2f../infer", Code::kNotFound},
      {"/v2/models/a/../b/infer", Code::kNotFound},
      {"/v2/models/a%2Fb/infer", Code::kNotFound},
      {"/v2/models/a%5cb/infer", Code::kNotFound},
      {"/v2/models/a%00b/infer", Code::kNotFound},
      {"/v2/models/a%0ab/infer", Code::kNotFound},
      {"/v2/models/a%/infer", Code::kInvalid},
      {"/v2/models/a%2/infer", Code::kInvalid},
      {"/v2/models/a%zz/infer", Code::kInvalid},
      {"/v2/models/a%+1/infer", Code::kInvalid},
      {"/v2/models/a%-1/infer", Code::kInvalid},
  };
  for (const auto& row : table) {
    const auto route = parse_route(row.target);
    ASSERT_FALSE(route) << row.target;
    EXPECT_EQ(route.error().code, row.code) << row.target << ": " << route.error().message;
  }
}

TEST(V2Path, AnErrorRepeatsOnlyTheBeginningOfALongPath) {
  const auto route = parse_route("/" + std::string(10'000, 'x'));
  ASSERT_FALSE(route);
  EXPECT_LT(route.error().message.size(), 300u);
}

}  // namespace
}  // namespace gradus::api
