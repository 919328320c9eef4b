// Commands to ladders: who may send them, and what they may say.
#include "api/http/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "api/codec/ladder_command.h"
#include "fake_engine.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
using serving::LadderCommand;
using testing::AllOf;
using testing::HasSubstr;

Result<LadderCommand> decoded(std::string_view json) {
  return decode_ladder_command(std::as_bytes(std::span(json)));
}

class AdminTest : public testing::Test {
 protected:
  AdminTest() : file_(testing::TempDir() + "admin_token_" + std::to_string(::getpid())) {}
  ~AdminTest() override { std::filesystem::remove(file_); }

  std::string token_file(const std::string& text, mode_t mode = 0600) {
    std::filesystem::remove(file_);
    std::ofstream(file_) << text;
    ::chmod(file_.c_str(), mode);
    return file_;
  }
  HttpResponse told(const config::AdminConfig& config, Call call, std::string_view peer) {
    V2Routes routes(engine_, {}, "1", Admin::open(config).value());
    call.request.peer = peer;
    return call.on(routes);
  }
  static Call pin() { return Call("POST", "/v2/models/m/ladder").body(R"({"pin":2})"); }

  const std::string file_;
  FakeEngine engine_;
};

TEST_F(AdminTest, WithoutAFlagNobodyMay) {
  const HttpResponse response = told({}, pin(), "127.0.0.1");
  EXPECT_EQ(response.status, 403);
  EXPECT_THAT(response.head,
              AllOf(HasSubstr("--admin-token-file"), HasSubstr("--allow-admin-from-loopback")));
  EXPECT_FALSE(engine_.last_command);
}

TEST_F(AdminTest, TheTokenAllowsItFromAnywhere) {
  const config::AdminConfig config{token_file("s3cret\n"), false};
  for (const std::string wrong : {"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cretx",
                                  "Bearer S3CRET", "s3cret", "Basic s3cret"}) {
    const HttpResponse response = told(config, pin().with("authorization", wrong), "127.0.0.1");
    EXPECT_EQ(response.status, 401) << wrong;
    EXPECT_EQ(header_of(response, "WWW-Authenticate"), "Bearer");
  }
  EXPECT_EQ(told(config, pin(), "127.0.0.1").status, 401);
  EXPECT_EQ(
      told(config, pin().with("Authorization", "Bearer s3cret").with("authorization", "Bearer x"),
           "10.0.0.7")
          .status,
      401);
  EXPECT_FALSE(engine_.last_command);
  EXPECT_EQ(told(config, pin().with("Authorization", "bearer s3cret"), "10.0.0.7").status, 200);
  ASSERT_TRUE(engine_.last_command);
  EXPECT_EQ(engine_.last_command->who, "10.0.0.7");
  EXPECT_EQ(engine_.last_command->level, 2);
}

TEST_F(AdminTest, LoopbackIsThisMachineWithoutBrowserAndProxy) {
  const config::AdminConfig config{"", true};
  for (const std::string peer : {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(told(config, pin(), peer).status, 200) << peer;
  }
  for (const std::string peer : {"", "10.0.0.7", "::ffff:10.0.0.7", "128.0.0.1", "fe80::1", "::"}) {
    const HttpResponse response = told(config, pin(), peer);
    EXPECT_EQ(response.status, 403) << peer;
    EXPECT_THAT(response.head, HasSubstr("--admin-token-file"));
  }
  for (const std::string header : {"Origin", "X-Forwarded-For", "Forwarded"}) {
    EXPECT_EQ(told(config, pin().with(header, "null"), "127.0.0.1").status, 403) << header;
  }
  const config::AdminConfig both{token_file("s3cret"), true};
  EXPECT_EQ(told(both, pin(), "::1").status, 200);
  EXPECT_EQ(told(both, pin(), "10.0.0.7").status, 401);
}

TEST_F(AdminTest, RefusesATokenFileThatKeepsNoSecret) {
  const auto fault = [this](const std::string& text, mode_t mode = 0600) {
    const auto admin = Admin::open({token_file(text, mode), false});
    return admin ? std::string() : admin.error().message;
  };
  EXPECT_EQ(fault("s3cret", 0640), "");
  EXPECT_EQ(fault("s3cret\r\n"), "");
  EXPECT_THAT(fault("s3cret", 0604), HasSubstr(file_ + "': is open to every user; chmod 600 it"));
  for (const std::string bad : {"", "\n", "two\nlines\n", "a blank", "ümlaut"}) {
    EXPECT_THAT(fault(bad), HasSubstr("1 to 4096 visible ASCII characters")) << bad;
  }
  EXPECT_THAT(fault(std::string(5000, 'a')), HasSubstr("1 to 4096"));
  const auto missing = Admin::open({file_ + ".none", false});
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
}

TEST_F(AdminTest, TakesTheTokenFromAPipeInParts) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  std::jthread writer([this] {
    std::ofstream pipe(file_);
    pipe << "s3" << std::flush << "cret\n";
  });
  const config::AdminConfig config{file_, false};
  EXPECT_EQ(told(config, pin().with("authorization", "Bearer s3cret"), "10.0.0.7").status, 200);
}

TEST(LadderCommand, SaysWhatItSays) {
  const auto pin = decoded(R"({"reason":"new driver","for":"15m","pin":2})");
  ASSERT_TRUE(pin) << pin.error().message;
  EXPECT_EQ(pin->verb, LadderCommand::Verb::kPin);
  EXPECT_EQ(pin->level, 2);
  EXPECT_EQ(pin->how_long, 15min);
  EXPECT_EQ(pin->reason, "new driver");
  EXPECT_EQ(decoded(R"({"pin":0})")->how_long, std::nullopt);
  EXPECT_EQ(decoded(R"({"unpin":true})")->verb, LadderCommand::Verb::kUnpin);
  EXPECT_EQ(decoded(R"({"enable":1,"reason":""})")->verb, LadderCommand::Verb::kEnable);
  EXPECT_EQ(decoded(R"({"disable":1})")->verb, LadderCommand::Verb::kDisable);
}

TEST(LadderCommand, ABadOneIsToldTheGoodForms) {
  const struct {
    std::string json, part;
  } table[] = {
      {"", "malformed JSON"},
      {"{\"pin\":", "malformed JSON"},
      {R"({"pin":1} x)", "malformed JSON"},
      {R"({"pin":1}{"pin":2})", "malformed JSON"},
      {"[]", "must be a JSON object"},
      {"{}", "none of 'pin', 'unpin'"},
      {R"({"for":"1m"})", "none of 'pin', 'unpin'"},
      {R"({"pin":2,"unpin":true})", "'pin' and 'unpin' at once"},
      {R"({"pin":2,"pin":2})", "'pin' comes twice"},
      {R"({"pin":-1})", "'pin' is -1"},
      {R"({"pin":"2"})", "'pin' is \"2\""},
      {R"({"pin":2.5})", "'pin' is 2.5"},
      {R"({"pin":null})", "'pin' is null"},
      {R"({"pin":{}})", "'pin' is an object"},
      {R"({"unpin":false})", "'unpin' is false"},
      {R"({"disable":0,"for":"1m"})", "'for' goes with 'pin' only"},
      {R"({"pin":2,"until":"noon"})", "unknown key 'until'"},
      {R"({"pin":2,"for":60})", "'for' is 60"},
      {R"({"pin":2,"reason":"two\nlines"})", "not one line"},
      {R"({"pin":2,"reason":")" + std::string(501, 'a') + "\"}", "'reason' has 501 bytes"},
      {std::string(4097, ' '), "4097 bytes"},
  };
  for (const auto& [json, part] : table) {
    const auto command = decoded(json);
    ASSERT_FALSE(command) << json;
    EXPECT_EQ(command.error().code, Code::kInvalid) << json;
    EXPECT_THAT(command.error().message, AllOf(HasSubstr(part), HasSubstr(R"({"unpin": true})")));
  }
}

TEST(LadderCommand, TimesAreFromASecondToThirtyDays) {
  EXPECT_EQ(parse_how_long("1s"), Duration(1s));
  EXPECT_EQ(parse_how_long("90s"), Duration(90s));
  EXPECT_EQ(parse_how_long("2h"), Duration(2h));
  EXPECT_EQ(parse_how_long("30d"), Duration(24h * 30));
  for (const std::string bad : {"", "s", "1", "0s", "31d", "721h", "1.5h", "-1s", "+1s", " 1s",
                                "1S", "1m30s", "15 m", "99999999999s"}) {
    const auto parsed = parse_how_long(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_THAT(parsed.error().message, HasSubstr("'" + bad + "'; expected 1s to 30d"));
  }
}

}  // namespace
}  // namespace gradus::api
