// How a server ends: draining, waiting for what is under way, and not waiting for ever.
#include <thread>

#include "test_server.h"

namespace gradus::api {
namespace {

const std::string kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(ServerEnd, ADrainAnswersAndClosesEachConnection) {
  EchoHandler handler;
  TestServer test(handler);
  RawClient old = test.client();
  old.send(kGet);
  ASSERT_EQ(old.read_answer()->header("connection"), "");
  test.server.drain();
  old.send(kGet);
  const auto answer = old.read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->header("connection"), "close");
  EXPECT_TRUE(old.ends());

  RawClient late = test.client();
  late.send(kGet);
  EXPECT_EQ(late.read_answer()->header("connection"), "close");
  EXPECT_TRUE(late.ends());
}

TEST(ServerEnd, ADrainClosesConnectionsThatStayIdle) {
  EchoHandler handler;
  TestServer test(handler);
  RawClient client = test.client();
  client.send(kGet);
  ASSERT_TRUE(client.read_answer());
  test.server.drain();
  EXPECT_TRUE(client.ends());
}

TEST(ServerEnd, AStopWaitsForARequestUnderWay) {
  HoldingHandler handler;
  TestServer test(handler);
  RawClient client = test.client();
  client.send(kGet);
  const Reply reply = handler.take();
  test.server.drain();  // as stop() begins, but sure to have begun
  std::atomic<bool> stopped{false};
  std::jthread stopper([&] {
    test.server.stop(steady_clock().now() + 60s);
    stopped = true;
  });
  RawClient late = test.client();  // the listener is still there
  late.send(kGet);
  const Reply late_reply = handler.take();
  EXPECT_FALSE(stopped);
  reply(text_response("in time"));
  EXPECT_EQ(client.read_answer()->body, "in time");
  EXPECT_FALSE(stopped);
  late_reply(text_response("late"));
  const auto answer = late.read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "late");
  EXPECT_EQ(answer->header("connection"), "close");
  stopper.join();
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(test.client().connected());
}

TEST(ServerEnd, AStopWaitsForABodyUnderWay) {
  EchoHandler handler;
  TestServer test(handler);
  RawClient client = test.client();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  ASSERT_EQ(client.read_answer(true)->status, 100);
  std::jthread stopper([&] { test.server.stop(steady_clock().now() + 60s); });
  EXPECT_FALSE(client.readable(50ms));
  client.send("hello");
  EXPECT_EQ(client.read_answer()->body, "hello");
}

TEST(ServerEnd, AStopClosesIdleConnectionsAtOnce) {
  EchoHandler handler;
  TestServer test(handler);
  RawClient client = test.client();
  client.send(kGet);
  ASSERT_TRUE(client.read_answer());
  const TimePoint start = steady_clock().now();
  test.server.stop(start + 60s);
  EXPECT_LT(steady_clock().now() - start, 20s);
  EXPECT_TRUE(client.ends());
}

TEST(ServerEnd, AStopEndsAtItsDeadlineAndLateRepliesGoNowhere) {
  HoldingHandler handler;
  std::vector<Reply> held;
  {
    TestServer test(handler);
    RawClient client = test.client();
    client.send(kGet);
    held.push_back(handler.take());
    test.server.stop(steady_clock().now() + 50ms);
    EXPECT_EQ(test.server.connections(), 0u);
    EXPECT_FALSE(client.read_answer());
    held[0](text_response("after the end"));
    client.send(kGet);
  }
  held.clear();  // the last one frees what the server left
}

TEST(ServerEnd, NoRequestIsLostWhileClientsKeepComing) {
  EchoHandler handler;
  TestServer test(handler);
  std::atomic<bool> stop_asked{false};
  std::atomic<int> lost{0};
  std::atomic<int> answered{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!stop_asked) {  // each request on its own connection
        RawClient client = test.client();
        if (!client.connected()) return;
        client.send(kGet);
        client.read_answer() ? ++answered : ++lost;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return answered > 200; }));
  test.server.drain();
  const int at_drain = answered;
  EXPECT_TRUE(eventually([&] { return answered > at_drain + 200; }));
  stop_asked = true;
  test.server.stop(steady_clock().now() + 60s);
  clients.clear();
  EXPECT_EQ(lost, 0);
}

TEST(ServerEnd, AServerThatNeverStartedCanBeDestroyed) {
  EchoHandler handler;
  worker::SharedPool pool{worker::SharedPool::Options{}};
  HttpServer server(on_free_port(), handler, 1, steady_clock(), pool);
}

}  // namespace
}  // namespace gradus::api
