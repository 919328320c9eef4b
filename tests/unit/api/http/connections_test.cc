// Many connections at once, and what is left of them.
#include <dirent.h>

#include <thread>

#include "test_server.h"

namespace gradus::api {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

TEST(Connections, NothingIsLeftOfTwoThousandThatBreakOff) {
  EchoHandler handler;
  TestServer test(handler);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 2000; ++i) {
    RawClient client = test.client();
    ASSERT_TRUE(client.connected());
    if (i % 4 == 1) client.send("GET / HT");
    if (i % 4 == 2) client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
    if (i % 4 == 3) client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.half_close();
  }
  EXPECT_TRUE(eventually([&] { return test.server.connections() == 0; }));
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << open_descriptors();
}

TEST(Connections, OneTooManyIsToldSoAndTheOthersLive) {
  EchoHandler handler;
  TestServer test(handler, on_free_port(), 3);
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(test.client());
    clients.back().send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(clients.back().read_answer()->status, 200);
  }
  {
    RawClient refused = test.client();
    refused.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const auto answer = refused.read_answer();
    expect_json_error(answer, 503);
    EXPECT_EQ(answer->header("retry-after"), "1");
    EXPECT_EQ(answer->header("connection"), "close");
    EXPECT_TRUE(refused.ends());
  }
  clients[0].send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(clients[0].read_answer()->status, 200);

  clients.pop_back();
  EXPECT_TRUE(eventually([&] { return test.server.connections() == 2; }));
  RawClient next = test.client();
  next.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(next.read_answer()->status, 200);
}

TEST(Connections, ManyClientsEachGetTheirOwnAnswers) {
  EchoHandler handler;
  const TestServer test(handler);
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      RawClient client = test.client();
      for (int i = 0; i < 50; ++i) {
        const std::string body = std::to_string(t) + ":" + std::to_string(i) +
                                 std::string(static_cast<std::size_t>(i) * 1000, 'x');
        client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n" + body);
        const auto answer = client.read_answer();
        if (answer && answer->body == body) ++good;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 400);
}

TEST(Connections, RepliesComeFromAnyThreadAndOnlyTheFirstCounts) {
  HoldingHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (int i = 0; i < 100; ++i) {
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const Reply reply = handler.take();
    std::jthread other([reply, i] {
      reply(text_response("answer " + std::to_string(i)));
      reply(text_response("second"));
    });
    EXPECT_EQ(client.read_answer()->body, "answer " + std::to_string(i));
  }
}

TEST(Connections, AReplyToAClientThatLeftHarmsNobody) {
  HoldingHandler handler;
  TestServer test(handler);
  {
    RawClient client = test.client();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    handler.take();  // dropped: 500, to nobody
    client.close();
  }
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const Reply reply = handler.take();
  client.close();
  reply(text_response(std::string(1 << 20, 'x')));
  EXPECT_TRUE(eventually([&] { return test.server.connections() == 0; }));
}

}  // namespace
}  // namespace gradus::api
