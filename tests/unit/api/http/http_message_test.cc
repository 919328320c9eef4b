#include "api/http/http_message.h"

#include <gtest/gtest.h>

namespace gradus::api {
namespace {

using namespace std::chrono_literals;

std::string head_of(const HttpResponse& response, bool keep_alive, bool http_1_0 = false) {
  std::string out;
  append_response_head(out, response, keep_alive, http_1_0, WallTime(1'764'428'645s));
  return out;
}

TEST(HttpMessage, AResponseHeadSaysLengthDateAndHeaders) {
  const std::string tail = "tail";
  HttpResponse response;
  response.status = 429;
  response.head = "head";
  response.segments.push_back({std::as_bytes(std::span(tail)), nullptr});
  response.headers.emplace_back("Retry-After", "1");
  EXPECT_EQ(head_of(response, true),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            "Content-Length: 8\r\nDate: Sat, 29 Nov 2025 15:04:05 GMT\r\nRetry-After: 1\r\n\r\n");
}

TEST(HttpMessage, AResponseHeadSaysWhatBecomesOfTheConnection) {
  EXPECT_NE(head_of({}, false).find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(head_of({}, true).find("Connection"), std::string::npos);
  EXPECT_NE(head_of({}, true, true).find("\r\nConnection: keep-alive\r\n"), std::string::npos);
  EXPECT_NE(head_of({}, false, true).find("\r\nConnection: close\r\n"), std::string::npos);
}

TEST(HttpMessage, AnErrorIsJsonAndTellsWhenToComeBack) {
  const HttpResponse unavailable = error_response(503, "a \"quoted\" reason");
  EXPECT_EQ(unavailable.head, R"({"error":"a \"quoted\" reason"})");
  EXPECT_EQ(unavailable.content_type, "application/json");
  ASSERT_EQ(unavailable.headers.size(), 1u);
  EXPECT_EQ(unavailable.headers[0].first, "Retry-After");
  EXPECT_EQ(error_response(429, "").headers.size(), 1u);
  EXPECT_TRUE(error_response(400, "").headers.empty());
}

TEST(HttpMessage, HeadersAreFoundInAnyCaseAndConflictsAreSeen) {
  const HttpHeader headers[] = {{"Name", "a"}, {"nAmE", "a"}, {"Other", "1"}, {"OTHER", "2"}};
  HttpRequest request;
  request.headers = headers;
  EXPECT_EQ(request.header("NAME"), "a");
  EXPECT_EQ(request.header("other"), "1");
  EXPECT_FALSE(request.header("nam"));
  EXPECT_FALSE(request.header_conflicts("name"));
  EXPECT_TRUE(request.header_conflicts("other"));
  EXPECT_FALSE(request.header_conflicts("none"));
}

}  // namespace
}  // namespace gradus::api
