// Many connections at once, and what is left of them.
#include <dirent.h>

#include <future>
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
  for (int i = 0; i < 8; ++i) {  // each thread has had one, and keeps what it waits with
    RawClient client = test.client();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(client.read_answer()->status, 200);
  }
  ASSERT_TRUE(eventually([&] { return test.server.connections() == 0; }));
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

TEST(Connections, AnAnswerIsWrittenWithoutAThreadOfTheServers) {
  struct Blocking final : Handler {
    void handle(const HttpRequest& request, Reply reply) override {
      if (request.target == "/held") return held.set_value(std::move(reply));
      blocked.set_value();
      release.get_future().wait();
      reply(text_response("released"));
    }
    std::promise<Reply> held;
    std::promise<void> blocked;
    std::promise<void> release;
  } handler;
  const TestServer test(handler, on_free_port(), 0, 1);
  RawClient client = test.client();
  client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
  const Reply reply = handler.held.get_future().get();
  RawClient other = test.client();
  other.send("GET /blocks HTTP/1.1\r\nHost: h\r\n\r\n");
  handler.blocked.get_future().wait();
  reply(text_response("here"));
  const auto answer = client.read_answer();
  handler.release.set_value();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "here");
  EXPECT_EQ(other.read_answer()->body, "released");
}

TEST(Connections, WhatIsAnsweredBeforeItsHandlerReturnsIsWrittenThen) {
  struct Early final : Handler {
    void handle(const HttpRequest& request, Reply reply) override {
      const std::string before(request.target);
      std::jthread([&] { reply(text_response(before)); }).join();
      if (before == "/first") early = client->readable(20ms);
      changed = changed || request.target != before || request.header("Name") != before;
      if (before == "/first") returned.set_value();
    }
    RawClient* client = nullptr;
    bool early = false;
    std::atomic<bool> changed{false};
    std::promise<void> returned;
  } handler;
  const TestServer test(handler);
  RawClient client = test.client();
  handler.client = &client;
  std::string all;
  const std::vector<std::string> targets = {"/first", "/2", "/third", "/4"};
  for (const auto& to : targets) {
    all += "GET " + to + " HTTP/1.1\r\nHost: h\r\nName: " + to + "\r\n\r\n";
  }
  client.send(all);
  handler.returned.get_future().wait();
  EXPECT_FALSE(handler.early);
  for (const auto& to : targets) EXPECT_EQ(client.read_answer()->body, to);
  EXPECT_FALSE(handler.changed);
}

TEST(Connections, WhoAnswersDoesNotWaitForAClientThatReadsLater) {
  HoldingHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::size_t size : {100'000, 32 << 20}) {
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const Reply reply = handler.take();
    reply(text_response(std::string(size, 'x')));  // returns, though nobody reads
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, std::string(size, 'x'));
  }
}

TEST(Connections, NothingIsLeftOfThoseThatBreakOffAsTheyAreAnswered) {
  struct Elsewhere final : Handler {
    void handle(const HttpRequest&, Reply reply) override {
      const std::lock_guard lock(mutex);
      threads.emplace_back([reply] { reply(text_response(std::string(200'000, 'x'))); });
    }
    std::mutex mutex;
    std::vector<std::jthread> threads;
  } handler;
  const std::string get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  const TestServer test(handler);
  for (int i = 0; i < 120; ++i) {
    RawClient client = test.client();
    client.send(get + get);
    for (int answer = 0; answer < i % 3; ++answer) EXPECT_TRUE(client.read_answer());
  }
  EXPECT_TRUE(eventually([&] { return test.server.connections() == 0; }));
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
