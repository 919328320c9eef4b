#include "base/json_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace gradus {
namespace {

TEST(JsonText, EscapesWhatJsonMustEscape) {
  EXPECT_EQ(json_string("a\"b\\c\n\t\r\x01z"), R"("a\"b\\c\n\t\r\u0001z")");
}

TEST(JsonText, KeepsValidUtf8AndReplacesTheRest) {
  EXPECT_EQ(json_string("żółć 🦉"), "\"żółć 🦉\"");
  const std::string kReplaced = "\xEF\xBF\xBD";
  EXPECT_EQ(json_string("\xff"), '"' + kReplaced + '"');
  EXPECT_EQ(json_string("\xc0\xaf"), '"' + kReplaced + kReplaced + '"');  // overlong
  EXPECT_EQ(json_string("\xed\xa0\x80"),
            '"' + kReplaced + kReplaced + kReplaced + '"');               // surrogate
  EXPECT_EQ(json_string("\xe2\x82"), '"' + kReplaced + kReplaced + '"');  // cut short
}

TEST(JsonText, FindsWhereValidUtf8Ends) {
  EXPECT_EQ(valid_utf8_prefix(""), 0u);
  EXPECT_EQ(valid_utf8_prefix("aż🦉"), 7u);
  EXPECT_EQ(valid_utf8_prefix("aż\xff🦉"), 3u);
  EXPECT_EQ(valid_utf8_prefix("ab\xe2\x82"), 2u);  // cut short
}

TEST(JsonText, NumbersReadBackExactlyAndStayValid) {
  std::string out;
  for (const double value : {0.1, -0.0, 1e300, 3.0}) {
    out.clear();
    append_json_number(out, value);
    EXPECT_EQ(std::stod(out), value) << out;
  }
  out.clear();
  append_json_number(out, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(out, "null");
}

}  // namespace
}  // namespace gradus
