// Clients that are too slow, with short limits; what is not under test is left long.
#include "test_server.h"

namespace gradus::api {
namespace {

TEST(Timeouts, ASlowHeaderIsAnsweredAndTheConnectionEnds) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.header_timeout = 100ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost:");
  const auto answer = client.read_answer();
  expect_json_error(answer, 408);
  EXPECT_EQ(answer->header("connection"), "close");
  EXPECT_TRUE(client.ends());
}

TEST(Timeouts, DrippingAHeaderDoesNotBuyTime) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.header_timeout = 100ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: h\r\nName: ");
  const TimePoint start = steady_clock().now();
  while (!client.readable(10ms) && steady_clock().now() < start + 10s) client.send("x");
  expect_json_error(client.read_answer(), 408);
}

TEST(Timeouts, ASecondRequestsHeaderHasItsOwnTime) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.header_timeout = 300ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b");
  EXPECT_EQ(client.read_answer()->body, "GET /a");
  expect_json_error(client.read_answer(), 408);
}

TEST(Timeouts, ASilentNewConnectionIsClosedWithoutAWord) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.header_timeout = 100ms;
  const TestServer test(handler, config);
  EXPECT_TRUE(test.client().ends());
}

TEST(Timeouts, ASlowBodyIsAnsweredAndTheConnectionEnds) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.body_timeout = 100ms;
  const TestServer test(handler, config);
  for (const std::string rest :
       {"Content-Length: 10\r\n\r\nabc", "Content-Length: 100000\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"}) {
    RawClient client = test.client();
    client.send("POST / HTTP/1.1\r\nHost: h\r\n" + rest);
    auto answer = client.read_answer(rest.starts_with("Expect"));
    if (answer && answer->status == 100) answer = client.read_answer();
    expect_json_error(answer, 408);
    EXPECT_TRUE(client.ends());
  }
}

TEST(Timeouts, DrippingABodyDoesNotBuyTime) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.body_timeout = 100ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  const TimePoint start = steady_clock().now();
  while (!client.readable(10ms) && steady_clock().now() < start + 10s) client.send("x");
  expect_json_error(client.read_answer(), 408);
}

TEST(Timeouts, AnIdleConnectionIsClosedWithoutAWord) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.idle_timeout = 100ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(client.read_answer());
  EXPECT_TRUE(client.ends());
}

TEST(Timeouts, AHandlerMayTakeItsTime) {
  HoldingHandler handler;
  config::HttpConfig config = on_free_port();
  config.header_timeout = config.body_timeout = config.idle_timeout = 300ms;
  const TestServer test(handler, config);
  RawClient client = test.client();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
  const Reply reply = handler.take();
  EXPECT_FALSE(client.readable(700ms));
  reply(text_response("late"));
  EXPECT_EQ(client.read_answer()->body, "late");
}

TEST(Timeouts, AClientThatDoesNotReadItsAnswerIsCutOff) {
  struct Large final : Handler {
    void handle(const HttpRequest&, Reply reply) override {
      reply(text_response(std::string(64 << 20, 'x')));
    }
  } handler;
  config::HttpConfig config = on_free_port();
  config.body_timeout = 100ms;
  TestServer test(handler, config);
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(client.readable(10s));
  EXPECT_TRUE(eventually([&] { return test.server.connections() == 0; }));
}

}  // namespace
}  // namespace gradus::api
