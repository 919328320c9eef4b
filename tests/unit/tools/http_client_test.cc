#include "tools/http_client.h"

#include <gtest/gtest.h>

namespace gradus::tools {
namespace {

TEST(AnswerReader, ReadsAnAnswerThatComesByteByByte) {
  const std::string sent =
      "HTTP/1.1 200 OK\r\nGradus-Level: 2\r\nInference-Header-Content-Length: 2\r\n"
      "Content-Length: 5\r\n\r\n{}abc";
  AnswerReader reader;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto whole = reader.take(sent.substr(i, 1));
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(*whole, i + 1 == sent.size());
  }
  EXPECT_EQ(reader.answer().status, 200);
  EXPECT_EQ(reader.answer().level(), 2);
  EXPECT_EQ(reader.answer().tensors(), "abc");
  EXPECT_EQ(reader.answer().body_bytes, 5U);
  EXPECT_FALSE(reader.take("more").has_value());
}

TEST(AnswerReader, DropsABodyOnlyWhenAllIsWell) {
  AnswerReader reader;
  reader.reset(Body::kDrop);
  EXPECT_TRUE(reader.take("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").value());
  EXPECT_EQ(reader.answer().body, "");
  EXPECT_EQ(reader.answer().body_bytes, 3U);
  reader.reset(Body::kDrop);
  EXPECT_TRUE(reader.take("HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nwhy").value());
  EXPECT_EQ(reader.answer().body, "why");
}

TEST(AnswerReader, RefusesWhatHasNoLengthOrStatus) {
  AnswerReader reader;
  EXPECT_FALSE(reader.take("HTTP/1.1 200 OK\r\n\r\n").has_value());
  reader.reset();
  EXPECT_FALSE(reader.take("SPDY 200 OK\r\nContent-Length: 0\r\n\r\n").has_value());
}

}  // namespace
}  // namespace gradus::tools
