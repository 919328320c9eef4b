#include "api/http/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "malformed_requests.h"

namespace gradus::api {
namespace {

using Progress = RequestParser::Progress;

// Feeds a whole request in pieces of `step` bytes, as a connection would.
struct Fed {
  Progress progress = Progress::kNeedMore;
  std::string body;
  std::size_t taken = 0;
};

Fed feed(RequestParser& parser, const std::string& bytes, std::size_t step) {
  Fed fed;
  bool header_done = false;
  for (std::size_t end = std::min(step, bytes.size());; end = std::min(end + step, bytes.size())) {
    for (;;) {
      const std::span<const char> pending(bytes.data() + fed.taken, end - fed.taken);
      std::size_t taken = 0;
      if (!header_done) {
        fed.progress = parser.feed(pending, taken);
        fed.taken += taken;
        header_done = fed.progress == Progress::kHeader;
        if (!header_done || !parser.chunked()) break;
        continue;
      }
      std::byte room[4];
      std::size_t written = 0;
      fed.progress = parser.feed_chunked(pending, taken, room, written);
      fed.taken += taken;
      fed.body.append(reinterpret_cast<const char*>(room), written);
      if (fed.progress != Progress::kNeedRoom) break;
    }
    if (fed.progress != Progress::kNeedMore || end == bytes.size()) return fed;
  }
}

std::string header(const RequestParser& parser, std::string_view name) {
  HttpRequest request;
  request.headers = parser.headers();
  return std::string(request.header(name).value_or("(none)"));
}

TEST(RequestParser, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      "POST /v2/models/m/infer?x=1 HTTP/1.1\r\nHost: h:80\r\ncontent-LENGTH: 5\r\n"
      "Empty:\r\nPadded: \t a b \t\r\n\r\nhello";
  for (const std::size_t step : {1, 2, 3, 7, 50, 1000}) {
    RequestParser parser({});
    const Fed fed = feed(parser, bytes, step);
    ASSERT_EQ(fed.progress, Progress::kHeader) << step;
    EXPECT_EQ(fed.taken, bytes.size() - 5);
    EXPECT_EQ(parser.method(), "POST");
    EXPECT_EQ(parser.target(), "/v2/models/m/infer?x=1");
    EXPECT_EQ(header(parser, "HOST"), "h:80");
    EXPECT_EQ(header(parser, "empty"), "");
    EXPECT_EQ(header(parser, "padded"), "a b");
    EXPECT_EQ(header(parser, "other"), "(none)");
    EXPECT_EQ(parser.content_length(), 5u);
    EXPECT_FALSE(parser.chunked());
    EXPECT_TRUE(parser.keep_alive());
  }
}

TEST(RequestParser, JoinsChunksHoweverTheyAreCut) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5\r\nhello\r\nA;ext=\"1\"\r\n, chunked!\r\n0\r\nTrailer: x\r\n\r\nNEXT";
  for (const std::size_t step : {1, 2, 3, 7, 50, 1000}) {
    RequestParser parser({});
    const Fed fed = feed(parser, bytes, step);
    ASSERT_EQ(fed.progress, Progress::kDone) << step << parser.refusal().text;
    EXPECT_EQ(fed.body, "hello, chunked!");
    EXPECT_EQ(fed.taken, bytes.size() - 4);
    EXPECT_EQ(header(parser, "trailer"), "(none)");
  }
}

TEST(RequestParser, ReadsAnEmptyChunkedBodyHoweverItIsCut) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body :
       {"0\r\n\r\n", "000\r\n\r\n", "0;a=b\r\n\r\n", "0\r\nA: b\r\n\r\n"}) {
    for (const std::size_t step : {1, 2, 3, 4, 5, 1000}) {
      RequestParser parser({});
      const Fed fed = feed(parser, head + body, step);
      EXPECT_EQ(fed.progress, Progress::kDone) << body << " in steps of " << step;
      EXPECT_EQ(fed.taken, head.size() + body.size());
      EXPECT_EQ(fed.body, "");
    }
  }
}

// What is asserted is the absence of crashes (Beast's assertions are on in debug builds), and that
// a body never grows beyond what was sent.
TEST(RequestParser, SurvivesDamagedRequestsHoweverTheyAreCut) {
  const std::string seeds[] = {
      "POST /v2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;a=\"b\"\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
      "POST /v2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "PUT /a%20b?c HTTP/1.0\r\nContent-Length: 3\r\nFolded: a\r\n b\r\nConnection: x, "
      "y\r\n\r\nabc",
  };
  const std::string alphabet = std::string("\r\n \t:;,=0159aAfFgG\"%/\x7f\x80\xff", 24) + '\0';
  std::minstd_rand random(7);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  for (int round = 0; round < 30'000; ++round) {
    std::string bytes = seeds[below(std::size(seeds))];
    for (std::size_t damage = below(4); damage > 0 && !bytes.empty(); --damage) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          bytes.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        case 2:
          bytes.erase(at, 1 + below(3));
          break;
        default:
          bytes.resize(at + 1);
      }
    }
    RequestParser parser({.header_bytes = 120, .headers = 5, .body_bytes = 30});
    const Fed fed = feed(parser, bytes, 1 + below(12));
    ASSERT_LE(fed.taken, bytes.size());
    ASSERT_LE(fed.body.size(), 30u);
  }
}

TEST(RequestParser, RefusesEveryMalformedRequestHoweverItIsCut) {
  for (const MalformedRequest& bad : malformed_requests()) {
    for (const std::size_t step : {1, 2, 5, 100'000}) {
      RequestParser parser({});
      const Fed fed = feed(parser, bad.bytes, step);
      ASSERT_EQ(fed.progress, Progress::kRefused) << bad.name << " in steps of " << step;
      EXPECT_EQ(parser.refusal().status, bad.status)
          << bad.name << " in steps of " << step << ": " << parser.refusal().text;
      EXPECT_FALSE(parser.refusal().text.empty());
    }
  }
}

TEST(RequestParser, CountsAllChunksAgainstTheLimitOfABody) {
  std::string bytes = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) bytes += "a\r\n0123456789\r\n";
  RequestParser parser({.body_bytes = 105});
  EXPECT_EQ(feed(parser, bytes, 16).progress, Progress::kRefused);
  EXPECT_EQ(parser.refusal().status, 413);
  RequestParser wider({.body_bytes = 110});
  EXPECT_EQ(feed(wider, bytes + "0\r\n\r\n", 16).progress, Progress::kDone);
}

TEST(RequestParser, AllowsAHeaderOfExactlyTheLimit) {
  const std::string frame = "GET / HTTP/1.1\r\nHost: h\r\na: \r\n\r\n";
  const auto request = [&](std::size_t size) {
    return "GET / HTTP/1.1\r\nHost: h\r\na: " + std::string(size - frame.size(), 'x') + "\r\n\r\n";
  };
  for (const std::size_t step : {1, 64, 1000}) {
    RequestParser parser({.header_bytes = 500});
    EXPECT_EQ(feed(parser, request(500), step).progress, Progress::kHeader) << step;
    parser.reset();
    EXPECT_EQ(feed(parser, request(501), step).progress, Progress::kRefused) << step;
    EXPECT_EQ(parser.refusal().status, 431);
  }
}

TEST(RequestParser, SkipsEmptyLinesBeforeARequest) {
  RequestParser parser({});
  EXPECT_EQ(feed(parser, "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1).progress,
            Progress::kHeader);
}

TEST(RequestParser, CutsSchemeAndHostOffAnAbsoluteTarget) {
  RequestParser parser({});
  feed(parser, "GET HTTP://other:80/v2/health HTTP/1.1\r\nHost: h\r\n\r\n", 1000);
  EXPECT_EQ(parser.target(), "/v2/health");
  parser.reset();
  feed(parser, "GET http://other HTTP/1.1\r\nHost: h\r\n\r\n", 1000);
  EXPECT_EQ(parser.target(), "/");
}

TEST(RequestParser, KnowsWhenTheClientWantsTheConnectionKept) {
  const auto keeps = [](const std::string& version, const std::string& line) {
    RequestParser parser({});
    feed(parser, "GET / " + version + "\r\nHost: h\r\n" + line + "\r\n", 1000);
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: x, Close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: keep-alive\r\n"));
}

TEST(RequestParser, StartsAfreshAfterAReset) {
  RequestParser parser({});
  feed(parser, "POST /a HTTP/1.0\r\nX: 1\r\nContent-Length: 3\r\n\r\n", 1000);
  EXPECT_TRUE(parser.http_1_0());
  parser.reset();
  EXPECT_EQ(
      feed(parser, "GET /b HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n", 1000).progress,
      Progress::kHeader);
  EXPECT_EQ(parser.method(), "GET");
  EXPECT_EQ(parser.content_length(), 0u);
  EXPECT_EQ(parser.headers().size(), 2u);
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_FALSE(parser.http_1_0());
}

TEST(RequestParser, AcceptsTheSameLengthTwice) {  // RFC 9112, section 6.3
  RequestParser parser({});
  EXPECT_EQ(feed(parser, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\n", 1).progress,
            Progress::kHeader);
  EXPECT_EQ(parser.content_length(), 5u);
}

}  // namespace
}  // namespace gradus::api
