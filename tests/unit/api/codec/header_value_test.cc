#include "api/codec/header_value.h"

#include <gtest/gtest.h>

namespace gradus::api {
namespace {

TEST(HeaderValue, VisibleAsciiStaysAsItIs) {
  EXPECT_EQ(header_value("model.int8_v-2+(b)~!.onnx"), "model.int8_v-2+(b)~!.onnx");
  EXPECT_EQ(header_value(""), "");
}

TEST(HeaderValue, EverythingElseIsPercentEncoded) {
  EXPECT_EQ(header_value(" 100% größe "), "%20100%25%20gr%C3%B6%C3%9Fe%20");
  EXPECT_EQ(header_value("a\r\nb:\tc\x7f"), "a%0D%0Ab:%09c%7F");
  EXPECT_EQ(header_value(std::string_view("\0\xff", 2)), "%00%FF");
}

}  // namespace
}  // namespace gradus::api
