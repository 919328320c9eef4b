#include "api/http/path_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_engine.h"

namespace gradus::api {
namespace {

class PathTableTest : public testing::Test, public Handler {
 protected:
  PathTableTest() {
    table_.add({{"/v2", says("server"), nullptr},
                {"/v2/models/stats", says("stats"), nullptr},
                {"/v2/models/{model}[/versions/{version}]", says("model"), nullptr},
                {"/v2/models/{model}[/versions/{version}]/infer", nullptr, says("infer")},
                {"/v2/models/{model}[/versions/{version}]/ladder", says("ladder"), says("told")}});
    table_.add({{"/v2/repository[/{repository}]/models/{model}/load", nullptr, says("load")}});
  }

  void handle(const HttpRequest& request, Reply reply) override { table_.handle(request, reply); }

  static PathHandler says(std::string what) {
    return [what](const PathNames& names, const HttpRequest&, const Reply& reply) {
      HttpResponse response;
      response.head = what + " " + names.repository + "|" + names.model + "|" + names.version;
      reply(std::move(response));
    };
  }

  PathTable table_;
};

TEST_F(PathTableTest, FormsAreFoundWithTheNamesInThem) {
  const struct {
    std::string method, target, answer;
  } table[] = {
      {"GET", "/v2", "server ||"},
      {"GET", "/v2?a=b", "server ||"},
      {"GET", "/v2/models/stats", "stats ||"},
      {"GET", "/v2/models/m", "model |m|"},
      {"GET", "/v2/models/m/versions/12", "model |m|12"},
      {"HEAD", "/v2/models/m/ladder?x", "ladder |m|"},
      {"POST", "/v2/models/m/versions/12/ladder", "told |m|12"},
      {"POST", "/v2/models/m/infer", "infer |m|"},
      {"POST", "/v2/models/versions/versions/1/infer", "infer |versions|1"},
      {"POST", "/v2/models/infer/infer", "infer |infer|"},
      {"POST", "/v2/models/a%20b%C3%A9%2b/infer", "infer |a bé+|"},
      {"POST", "/v2/models/..a/infer", "infer |..a|"},
      {"POST", "/v2/repository/models/m/load", "load |m|"},
      {"POST", "/v2/repository/models/models/m/load", "load models|m|"},
  };
  for (const auto& row : table) {
    const HttpResponse response = Call(row.method, row.target).on(*this);
    EXPECT_EQ(response.status, 200) << row.target << ": " << response.head;
    EXPECT_EQ(response.head, row.answer) << row.target;
  }
}

TEST_F(PathTableTest, EverythingElseIsRefused) {
  const struct {
    std::string target;
    int status;
  } table[] = {
      {"", 404},
      {"/", 404},
      {"*", 404},
      {"v2", 404},
      {"/v2/", 404},
      {"/v1/models/m", 404},
      {"/V2", 404},
      {"//v2", 404},
      {"/v2/models/", 404},
      {"/v2/models//infer", 404},
      {"/v2/models/m/", 404},
      {"/v2/models/m/inferx", 404},
      {"/v2/models/m/infer/", 404},
      {"/v2/models/m/infer/more", 404},
      {"/v2/models/m/versions", 404},
      {"/v2/models/m/versions/", 404},
      {"/v2/models/m/versions/x/infer", 404},
      {"/v2/models/m/versions/-1", 404},
      {"/v2/models/m/versions/1%32", 404},
      {"/v2/models/m/versions/1/versions/2", 404},
      {"/v2/models/./infer", 404},
      {"/v2/models/../infer", 404},
      {"/v2/models/%2e%2e/infer", 404},
      {"/v2/models/..%2f../infer", 404},
      {"/v2/models/a/../b/infer", 404},
      {"/v2/models/a%2Fb/infer", 404},
      {"/v2/models/a%5cb/infer", 404},
      {"/v2/models/a%00b/infer", 404},
      {"/v2/models/a%0ab/infer", 404},
      {"/v2/models/a%/infer", 400},
      {"/v2/models/a%2/infer", 400},
      {"/v2/models/a%zz/infer", 400},
      {"/v2/models/a%+1/infer", 400},
      {"/v2/models/a%-1/infer", 400},
      {"/v2/repository/..%2f../models/m/load", 404},
      {"/v2/repository//models/m/load", 404},
  };
  for (const auto& row : table) {
    const HttpResponse response = Call("POST", row.target).on(*this);
    EXPECT_EQ(response.status, row.status) << row.target << ": " << response.head;
    EXPECT_TRUE(response.head.starts_with("{\"error\":\"")) << response.head;
  }
}

TEST_F(PathTableTest, EachPathTakesItsMethodsOnly) {
  const struct {
    std::string method, target, allow;
  } table[] = {
      {"POST", "/v2", "GET, HEAD"},           {"get", "/v2", "GET, HEAD"},
      {"GET", "/v2/models/m/infer", "POST"},  {"HEAD", "/v2/models/m/infer", "POST"},
      {"post", "/v2/models/m/infer", "POST"}, {"PUT", "/v2/models/m/ladder", "GET, HEAD, POST"},
  };
  for (const auto& row : table) {
    const HttpResponse response = Call(row.method, row.target).on(*this);
    EXPECT_EQ(response.status, 405) << row.method << " " << row.target;
    EXPECT_EQ(header_of(response, "Allow"), row.allow) << row.method << " " << row.target;
  }
  EXPECT_EQ(Call("BREW", "/nowhere").on(*this).status, 404);
}

TEST_F(PathTableTest, AnErrorRepeatsOnlyTheBeginningOfALongPath) {
  const HttpResponse response = Call("GET", "/" + std::string(10'000, 'x')).on(*this);
  EXPECT_EQ(response.status, 404);
  EXPECT_LT(response.head.size(), 300u);
}

}  // namespace
}  // namespace gradus::api
