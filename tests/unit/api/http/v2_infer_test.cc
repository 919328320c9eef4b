// Inference through the routes: what the headers ask for, and what every outcome looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include <cstring>
#include <thread>

#include "api/codec/content_coding.h"
#include "fake_engine.h"
#include "test_server.h"

namespace gradus::api {
namespace {

using testing::HasSubstr;

const std::string kPath = "/v2/models/m/infer";
const std::string kJson =
    R"({"id":"7","inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,-2.5]}]})";
const std::string kBinaryJson =
    R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],)"
    R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string packed(Coding coding, const std::string& plain) {
  const std::span<const std::byte> part = std::as_bytes(std::span(plain));
  return text(*deflate(coding, std::span(&part, 1)));
}

std::string unpacked(Coding coding, const std::string& bytes) {
  return text(*inflate(coding, std::as_bytes(std::span(bytes)), 1 << 20));
}

class V2Infer : public testing::Test {
 protected:
  HttpResponse infer(Call call) { return call.on(routes_); }
  static Call post(const std::string& body) { return Call("POST", kPath).body(body); }
  static Call post_binary() {
    static const std::string length = std::to_string(kBinaryJson.size());
    return post(kBinaryJson + floats({1.5F, -2.5F}))
        .with("inference-header-content-length", length);
  }

  FakeEngine engine_;
  V2Routes routes_{engine_, {}, "1"};
};

TEST_F(V2Infer, AJsonRequestGetsAJsonAnswerThatSaysItsLevel) {
  const HttpResponse response = infer(post(kJson));
  EXPECT_EQ(response.status, 200) << response.head;
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_THAT(body_of(response), HasSubstr(R"("data":[1.5,-2.5])"));
  EXPECT_THAT(body_of(response), HasSubstr(R"("id":"7")"));
  EXPECT_THAT(body_of(response), HasSubstr(R"("level":2)"));
  EXPECT_EQ(header_of(response, "gradus-level"), "2");
  EXPECT_EQ(header_of(response, "gradus-variant"), "model.int8.onnx");
  EXPECT_EQ(header_of(response, "gradus-degraded"), "true");
  EXPECT_EQ(header_of(response, "Inference-Header-Content-Length"), "");
  EXPECT_EQ(engine_.last_request->model, "m");
  EXPECT_EQ(engine_.last_request->version, "");
  EXPECT_FALSE(engine_.last_request->timeout);
}

TEST_F(V2Infer, NoVariantsNameBreaksTheHeader) {
  engine_.on_infer = [](const serving::Request&, const serving::Done& done) {
    serving::Response response;
    response.origin.variant = "größe\r\nX-Evil: 100%";
    done(std::move(response));
  };
  EXPECT_EQ(header_of(infer(post(kJson)), "gradus-variant"),
            "gr%C3%B6%C3%9Fe%0D%0AX-Evil:%20100%25");
}

TEST_F(V2Infer, TheVersionOfThePathReachesTheEngine) {
  EXPECT_EQ(Call("POST", "/v2/models/m/versions/3/infer").body(kJson).on(routes_).status, 200);
  EXPECT_EQ(engine_.last_request->version, "3");
}

TEST_F(V2Infer, ABinaryTensorIsNeitherCopiedOnItsWayInNorOut) {
  alignas(64) std::byte bytes[1024];
  const std::string sent = kBinaryJson + floats({1.5F, -2.5F});
  Call call = post_binary();
  HttpRequest probe;
  const std::string length = std::to_string(kBinaryJson.size());
  const HttpHeader headers[] = {{"Inference-Header-Content-Length", length}};
  probe.headers = headers;
  const std::size_t offset = routes_.body_offset(probe);
  ASSERT_LT(offset, 64u);
  std::memcpy(bytes + offset, sent.data(), sent.size());
  call.request.body = {bytes + offset, sent.size()};
  call.request.body_owner = std::make_shared<int>();
  call.request.readable_after = 64;
  const HttpResponse response = infer(call);
  ASSERT_EQ(response.status, 200) << response.head;
  EXPECT_EQ(response.content_type, "application/octet-stream");
  EXPECT_EQ(header_of(response, "Inference-Header-Content-Length"),
            std::to_string(response.head.size()));
  ASSERT_EQ(response.segments.size(), 1u);
  EXPECT_EQ(response.segments[0].bytes.data(), bytes + offset + kBinaryJson.size());
  EXPECT_EQ(text(response.segments[0].bytes), floats({1.5F, -2.5F}));
}

TEST_F(V2Infer, ARawRequestIsTheOnlyInput) {
  const HttpResponse response =
      infer(post(floats({1, 2, 3})).with("Inference-Header-Content-Length", "0"));
  ASSERT_EQ(response.status, 200) << response.head;
  EXPECT_EQ(engine_.last_request->inputs.at(0).tensor.shape, Shape{3});
  EXPECT_EQ(text(response.segments.at(0).bytes), floats({1, 2, 3}));
  Call unknown = Call("POST", "/v2/models/other/infer").body("1234");
  EXPECT_EQ(infer(unknown.with("Inference-Header-Content-Length", "0")).status, 404);
}

TEST_F(V2Infer, AWrongHeaderLengthIsRefused) {
  for (const std::string value : {"x", "-1", "1.5", " 5", "99999", "18446744073709551616", ""}) {
    const HttpResponse response = infer(post(kJson).with("Inference-Header-Content-Length", value));
    EXPECT_EQ(response.status, 400) << value;
    EXPECT_THAT(response.head, HasSubstr("Inference-Header-Content-Length")) << value;
  }
  EXPECT_EQ(infer(post_binary().with("Inference-Header-Content-Length", "5")).status, 400);
  EXPECT_FALSE(engine_.last_request);
}

TEST_F(V2Infer, MalformedJsonIsRefused) {
  for (const std::string body : {"", "{", "[]", "{\"inputs\":1}", "nonsense"}) {
    const HttpResponse response = infer(post(body));
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_TRUE(response.head.starts_with("{\"error\":\"")) << response.head;
  }
  EXPECT_FALSE(engine_.last_request);
}

TEST_F(V2Infer, CompressedBodiesAreReadAndWritten) {
  for (const auto& [coding, name] :
       {std::pair{Coding::kGzip, "gzip"}, {Coding::kDeflate, "deflate"}}) {
    const HttpResponse json = infer(
        post(packed(coding, kJson)).with("Content-Encoding", name).with("Accept-Encoding", name));
    ASSERT_EQ(json.status, 200) << json.head;
    EXPECT_EQ(header_of(json, "Content-Encoding"), name);
    EXPECT_THAT(unpacked(coding, body_of(json)), HasSubstr(R"("data":[1.5,-2.5])"));

    const HttpResponse binary = infer(post_binary().with("accept-encoding", name));
    const std::string plain = unpacked(coding, body_of(binary));
    EXPECT_EQ(binary.content_type, "application/octet-stream");
    const std::size_t length = std::stoul(header_of(binary, "Inference-Header-Content-Length"));
    EXPECT_EQ(plain.substr(length), floats({1.5F, -2.5F}));
  }
  const std::string length = std::to_string(kBinaryJson.size());
  const HttpResponse both = infer(post(packed(Coding::kGzip, kBinaryJson + floats({1.5F, -2.5F})))
                                      .with("Content-Encoding", "gzip")
                                      .with("Inference-Header-Content-Length", length));
  ASSERT_EQ(both.status, 200) << both.head;
  EXPECT_EQ(text(both.segments.at(0).bytes), floats({1.5F, -2.5F}));
}

TEST_F(V2Infer, CompressedBodiesThatCannotBeReadAreRefused) {
  EXPECT_EQ(infer(post(kJson).with("Content-Encoding", "br")).status, 415);
  EXPECT_EQ(infer(post(kJson).with("Content-Encoding", "gzip")).status, 400);
  EXPECT_EQ(infer(post(kJson).with("Content-Encoding", "gzip").with("Content-Encoding", "deflate"))
                .status,
            415);
  config::HttpConfig small;
  small.max_input_size = 1000;
  V2Routes strict(engine_, small, "1");
  Call bomb = post(packed(Coding::kGzip, std::string(100'000, ' ') + kJson));
  ASSERT_LT(bomb.request.body.size(), 1000u);
  EXPECT_EQ(bomb.with("Content-Encoding", "gzip").on(strict).status, 413);
  EXPECT_FALSE(engine_.last_request);
}

TEST_F(V2Infer, ALargeBodyIsDecodedElsewhereSoThatTheServersThreadsStayFree) {
  struct Sink final : ReplySink {
    void send(HttpResponse response) override {
      said.set_value({std::this_thread::get_id(), response.status});
    }
    std::promise<std::pair<std::thread::id, int>> said;
  };
  const auto sink = std::make_shared<Sink>();
  const std::string large =
      kJson.substr(0, kJson.size() - 1) + R"(,"padding":")" + std::string(300'000, 'x') + "\"}";
  Call call = post(large);
  routes_.handle(call.request, Reply(sink));
  const auto [thread, status] = sink->said.get_future().get();
  EXPECT_EQ(status, 200);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(V2Infer, TheHeadersTimeoutIsKeptApartFromTheParameter) {
  infer(post(kJson).with("gradus-timeout-ms", "250"));
  EXPECT_EQ(engine_.last_request->client_timeout, Duration(250ms));
  EXPECT_EQ(engine_.last_request->timeout, std::nullopt);
  infer(post(R"({"parameters":{"timeout":300000},)" + kJson.substr(1))
            .with("gradus-timeout-ms", "250"));
  EXPECT_EQ(engine_.last_request->client_timeout, Duration(250ms));
  EXPECT_EQ(engine_.last_request->timeout, Duration(300ms));
}

TEST_F(V2Infer, TheNarrowerLevelsHold) {
  infer(post(R"({"parameters":{"min_level":1,"max_level":3},)" + kJson.substr(1))
            .with("gradus-min-level", "2")
            .with("gradus-max-level", "5"));
  EXPECT_EQ(engine_.last_request->min_level, 2);
  EXPECT_EQ(engine_.last_request->max_level, 3);
}

TEST_F(V2Infer, HeadersOutOfBoundsAreRefused) {
  const std::pair<std::string, std::string> table[] = {
      {"gradus-timeout-ms", "0"},         {"gradus-timeout-ms", "-5"},
      {"gradus-timeout-ms", "1.5"},       {"gradus-timeout-ms", "abc"},
      {"gradus-timeout-ms", ""},          {"gradus-timeout-ms", "9e9"},
      {"gradus-min-level", "-1"},         {"gradus-max-level", "x"},
      {"gradus-max-level", "4294967296"}, {"gradus-timeout-ms", "99999999999999"},
  };
  for (const auto& [name, value] : table) {
    const HttpResponse response = infer(post(kJson).with(name, value));
    EXPECT_EQ(response.status, 400) << name << ": " << value;
    EXPECT_THAT(response.head, HasSubstr(name));
  }
  EXPECT_EQ(infer(post(kJson).with("gradus-timeout-ms", "5").with("Gradus-Timeout-Ms", "6")).status,
            400);
  EXPECT_EQ(infer(post(kJson).with("gradus-min-level", "3").with("gradus-max-level", "2")).status,
            400);
  EXPECT_FALSE(engine_.last_request);
}

TEST_F(V2Infer, TheArrivalIsTheRequests) {
  Call call = post(kJson);
  call.request.arrival = TimePoint(123s);
  infer(call);
  EXPECT_EQ(engine_.last_request->arrival, TimePoint(123s));
}

TEST_F(V2Infer, EveryCodeHasItsStatus) {
  const std::pair<Code, int> table[] = {{Code::kInvalid, 400},     {Code::kNotFound, 404},
                                        {Code::kOverloaded, 429},  {Code::kDeadline, 504},
                                        {Code::kUnavailable, 503}, {Code::kInternal, 500}};
  for (const auto& [code, status] : table) {
    engine_.on_infer = [code = code](const auto&, const serving::Done& done) {
      done(fail(code, "the reason"));
    };
    const HttpResponse response = infer(post(kJson).with("Accept-Encoding", "gzip"));
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.head, R"({"error":"the reason"})");
    EXPECT_EQ(header_of(response, "Retry-After"), status == 429 || status == 503 ? "1" : "");
    EXPECT_EQ(header_of(response, "gradus-level"), "");
    EXPECT_EQ(header_of(response, "gradus-variant"), "");
  }
}

TEST_F(V2Infer, WhatNeverReachesTheEngineIsCountedThere) {
  infer(post("{"));
  infer(post(kJson).with("gradus-tier", "first"));
  infer(post(kJson).with("Content-Encoding", "br"));
  infer(post("\x1f\x8b no gzip").with("Content-Encoding", "gzip"));
  infer(post(kJson));  // reaches it
  EXPECT_EQ(engine_.refusals,
            (std::vector<std::pair<std::string, Code>>(4, {"m", Code::kInvalid})));
}

TEST_F(V2Infer, OverASocketFromAnotherThread) {
  std::vector<std::jthread> threads;
  engine_.on_infer = [&](serving::Request request, serving::Done done) {
    threads.emplace_back([request = std::move(request), done = std::move(done)]() mutable {
      FakeEngine::mirror(std::move(request), done);
    });
  };
  const TestServer test(routes_);
  RawClient client = test.client();
  const std::string sent = kBinaryJson + floats({1.5F, -2.5F});
  for (int i = 0; i < 20; ++i) {
    client.send("POST " + kPath + " HTTP/1.1\r\nHost: h\r\nInference-Header-Content-Length: " +
                std::to_string(kBinaryJson.size()) +
                "\r\nContent-Length: " + std::to_string(sent.size()) + "\r\n\r\n" + sent);
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200) << answer->body;
    EXPECT_EQ(answer->header("gradus-degraded"), "true");
    const std::size_t length = std::stoul(answer->header("inference-header-content-length"));
    EXPECT_EQ(answer->body.substr(length), floats({1.5F, -2.5F}));
  }
}

}  // namespace
}  // namespace gradus::api
