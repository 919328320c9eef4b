// What one connection may count on: bodies of every form, keep-alive, limits.
#include "api/http/http_server.h"

#include <fstream>
#include <future>
#include <thread>

#include "test_server.h"

namespace gradus::api {
namespace {

std::string post(std::string_view body, std::string_view lines = "") {
  return "POST /p HTTP/1.1\r\nHost: h\r\n" + std::string(lines) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

TEST(HttpServer, SaysTheRealPortAndAnswers) {
  EchoHandler handler;
  const TestServer test(handler);
  EXPECT_NE(test.port, 0);
  RawClient client = test.client();
  client.send("GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto answer = client.read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "GET /a?b=c");
  EXPECT_EQ(answer->header("content-length"), "10");
  EXPECT_TRUE(answer->header("date").ends_with(" GMT"));
}

TEST(HttpServer, APortInUseIsAnErrorThatNamesIt) {
  EchoHandler handler;
  const TestServer test(handler);
  config::HttpConfig config;
  config.port = test.port;
  worker::SharedPool pool{worker::SharedPool::Options{}};
  HttpServer second(config, handler, 1, steady_clock(), pool);
  const auto started = second.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kUnavailable);
  EXPECT_NE(started.error().message.find("127.0.0.1:" + std::to_string(test.port)),
            std::string::npos);
}

TEST(HttpServer, AnUnknownAddressIsAnError) {
  EchoHandler handler;
  config::HttpConfig config;
  config.address = "192.0.2.1";  // set aside for documentation (RFC 5737): no machine has it
  config.port = 0;
  worker::SharedPool pool{worker::SharedPool::Options{}};
  EXPECT_FALSE(HttpServer(config, handler, 1, steady_clock(), pool).start());
}

TEST(HttpServer, ReturnsBodiesOfEverySizeOverOneConnection) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::size_t size : {1, 200, 5'000, 16'384, 20'480, 70'000, 1'000'000, 3'000'000}) {
    const std::string body = pattern(size);
    std::thread sender([&] { client.send(post(body)); });
    const auto answer = client.read_answer();
    sender.join();
    ASSERT_TRUE(answer) << size;
    EXPECT_EQ(answer->body, body) << size;
  }
}

TEST(HttpServer, ReturnsChunkedBodiesOfEverySize) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::size_t size : {1, 200, 20'000, 70'000, 1'000'000}) {
    const std::string body = pattern(size);
    std::string sent = "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (std::size_t at = 0; at < size; at += 30'000) {
      const std::size_t n = std::min<std::size_t>(30'000, size - at);
      char head[20];
      std::snprintf(head, sizeof head, "%zx\r\n", n);
      sent += head + body.substr(at, n) + "\r\n";
    }
    sent += "0\r\n\r\n";
    std::thread sender([&] { client.send(sent); });
    const auto answer = client.read_answer();
    sender.join();
    ASSERT_TRUE(answer) << size;
    EXPECT_EQ(answer->body, body) << size;
  }
}

TEST(HttpServer, ALargeBodyLiesWhereAWorkerCanReadIt) {
  HoldingHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send(post(pattern(100'000)));
  const Reply reply = handler.take();
  EXPECT_TRUE(test.pool.find(handler.body()));
  reply(text_response("done"));
  EXPECT_EQ(client.read_answer()->body, "done");
}

TEST(HttpServer, SaysWhenAnAnswersFirstByteWasWrittenAndItsLast) {
  HoldingHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send(post("x"));
  const Reply reply = handler.take();
  std::promise<SendTimes> times;
  HttpResponse response = text_response(pattern(32 << 20));  // more than the kernel takes at once
  response.send_times = {new SendTimes, [&times](SendTimes* filled) {
                           times.set_value(*filled);
                           delete filled;
                         }};
  const TimePoint before = steady_clock().now();
  reply(std::move(response));
  ASSERT_TRUE(client.readable(20s));
  const TimePoint half_sent = steady_clock().now();
  EXPECT_EQ(client.read_answer()->body.size(), 32u << 20);
  const SendTimes said = times.get_future().get();
  EXPECT_GT(said.begun, before);
  EXPECT_LT(said.begun, half_sent);
  EXPECT_GT(said.ended, half_sent);
}

TEST(HttpServer, PlacesABodyWhereItsHandlerWantsIt) {
  EchoHandler handler;
  handler.offset = 37;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::size_t size : {100, 100'000}) {
    client.send(post(pattern(size)));
    ASSERT_EQ(client.read_answer()->body, pattern(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handler.last_body.load()) % 64, 37u);
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  std::string all;
  for (int i = 0; i < 50; ++i) all += post("body " + std::to_string(i));
  client.send(all + "GET /last HTTP/1.1\r\nHost: h\r\n\r\n");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read_answer()->body, "body " + std::to_string(i));
  EXPECT_EQ(client.read_answer()->body, "GET /last");
}

TEST(HttpServer, KeepsOrEndsAConnectionAsTheClientAsks) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient closing = test.client();
  closing.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(closing.read_answer()->header("connection"), "close");
  EXPECT_TRUE(closing.ends());

  RawClient old = test.client();
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_answer()->header("connection"), "close");
  EXPECT_TRUE(old.ends());

  RawClient old_keeping = test.client();
  for (int i = 0; i < 2; ++i) {
    old_keeping.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(old_keeping.read_answer()->header("connection"), "keep-alive");
  }
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_answer(true)->header("content-length"), "7");
  EXPECT_EQ(client.read_answer()->body, "GET /b");
}

TEST(HttpServer, AnswersAClientThatHasStoppedSending) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send(post("all of it"));
  client.half_close();
  EXPECT_EQ(client.read_answer()->body, "all of it");
  EXPECT_TRUE(client.ends());
}

TEST(HttpServer, RefusesWhatEndsTooSoon) {
  EchoHandler handler;
  const TestServer test(handler);
  const std::string head = "POST /p HTTP/1.1\r\nHost: h\r\n";
  for (const std::string& sent : {
           head + "Content-Length: 10\r\n\r\nabc",
           head + "Content-Length: 100000\r\n\r\n" + std::string(50'000, 'x'),
           head + "Content-Length: 10\r\n\r\n",
           head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
           head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
           head,
           std::string("P"),
       }) {
    RawClient client = test.client();
    client.send(sent);
    client.half_close();
    expect_json_error(client.read_answer(), 400);
    EXPECT_TRUE(client.ends());
  }
  EXPECT_EQ(handler.requests, 0);
}

TEST(HttpServer, AsksForABodyThatWaitsToBeAskedFor) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::string length : {"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"}) {
    client.send("POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + length + "\r\n");
    ASSERT_EQ(client.read_answer(true)->status, 100);
    client.send(length[0] == 'C' ? "hello" : "5\r\nhello\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_answer()->body, "hello");
  }
}

TEST(HttpServer, DoesNotAskForABodyThatIsThere) {
  EchoHandler handler;
  const TestServer test(handler);
  RawClient client = test.client();
  client.send(post("hello", "Expect: 100-continue\r\n"));
  EXPECT_EQ(client.read_answer()->status, 200);
}

TEST(HttpServer, RefusesALargeBodyBeforeItIsSent) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.max_input_size = 1000;
  const TestServer test(handler, config);
  for (const std::string line : {"", "Expect: 100-continue\r\n"}) {
    RawClient client = test.client();
    client.send("POST /p HTTP/1.1\r\nHost: h\r\n" + line + "Content-Length: 1001\r\n\r\n");
    const auto answer = client.read_answer();
    expect_json_error(answer, 413);
    EXPECT_NE(answer->body.find("1000 bytes"), std::string::npos) << answer->body;
    EXPECT_TRUE(client.ends());
  }
  RawClient client = test.client();
  client.send(post(pattern(1000)));
  EXPECT_EQ(client.read_answer()->status, 200);
}

TEST(HttpServer, AClientThatSendsARefusedBodyAllTheSameGetsItsAnswer) {
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.max_input_size = 1000;
  const TestServer test(handler, config);
  RawClient client = test.client();
  EXPECT_TRUE(client.send(post(pattern(5'000'000))));
  expect_json_error(client.read_answer(), 413);
}

TEST(HttpServer, AnAnnouncedGibibyteCostsNoMemory) {
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
    }
    return 0ull;
  };
  EchoHandler handler;
  config::HttpConfig config = on_free_port();
  config.max_input_size = 2ull << 30;
  const TestServer test(handler, config);
  const auto before = resident_kib();
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(test.client());
    clients.back().send(
        "POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: "
        "1073741824\r\n\r\n");
    ASSERT_EQ(clients.back().read_answer(true)->status, 100);
    clients.back().send(pattern(10'000));
  }
  EXPECT_LT(resident_kib(), before + 32 * 1024);
}

TEST(HttpServer, AHandlerThatThrowsOrForgetsGivesAnErrorAndTheConnectionLives) {
  struct Careless final : Handler {
    void handle(const HttpRequest& request, Reply) override {
      if (request.target == "/throw") throw std::runtime_error("boom");
    }
  } handler;
  const TestServer test(handler);
  RawClient client = test.client();
  for (const std::string path : {"/throw", "/forget"}) {
    client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_json_error(client.read_answer(), 500);
  }
}

TEST(HttpServer, WritesManySegmentsInOrder) {
  struct Pieces final : Handler {
    void handle(const HttpRequest&, Reply reply) override {
      HttpResponse response = text_response("head:");
      for (int i = 0; i < 300; ++i) {
        const auto piece = std::make_shared<std::string>(static_cast<std::size_t>(i % 7) * 1000,
                                                         static_cast<char>('a' + i % 26));
        response.segments.push_back({std::as_bytes(std::span(*piece)), piece});
      }
      reply(std::move(response));
    }
  } handler;
  std::string expected = "head:";
  for (int i = 0; i < 300; ++i) {
    expected.append(static_cast<std::size_t>(i % 7) * 1000, static_cast<char>('a' + i % 26));
  }
  const TestServer test(handler);
  RawClient client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_answer()->body, expected);
}

TEST(HttpServer, StampsTheArrivalOfTheFirstByte) {
  struct Arrival final : Handler {
    void handle(const HttpRequest& request, Reply reply) override {
      arrival = request.arrival.time_since_epoch().count();
      reply(text_response("ok"));
    }
    std::atomic<Duration::rep> arrival{0};
  } handler;
  const TestServer test(handler);
  RawClient client = test.client();
  const TimePoint before = steady_clock().now();
  client.send("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  ASSERT_EQ(client.read_answer(true)->status, 100);
  const TimePoint header_seen = steady_clock().now();
  client.send("x");
  ASSERT_EQ(client.read_answer()->status, 200);
  EXPECT_GE(handler.arrival, before.time_since_epoch().count());
  EXPECT_LE(handler.arrival, header_seen.time_since_epoch().count());
}

}  // namespace
}  // namespace gradus::api
