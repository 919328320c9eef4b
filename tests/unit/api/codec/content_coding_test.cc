#include "api/codec/content_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string packed(Coding coding, std::string_view text) {
  const std::vector<std::span<const std::byte>> parts{bytes(text)};
  const auto out = deflate(coding, parts);
  return out ? text_of(*out) : "";
}

std::string noise(std::size_t size) {
  std::mt19937 random(3);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(ContentCoding, BodiesReadBackWhateverTheirSize) {
  for (const Coding coding : {Coding::kIdentity, Coding::kGzip, Coding::kDeflate}) {
    for (const std::string& text :
         {std::string(), std::string("x"), std::string(3'000'000, 'a'), noise(300'000)}) {
      const auto back = inflate(coding, bytes(packed(coding, text)), text.size());
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(text_of(*back), text);
    }
  }
}

TEST(ContentCoding, PartsBecomeOneBody) {
  const std::string head = "{\"a\":1}";
  const std::string tail = noise(1000);
  const std::vector<std::span<const std::byte>> parts{bytes(head), {}, bytes(tail), {}};
  for (const Coding coding : {Coding::kIdentity, Coding::kGzip, Coding::kDeflate}) {
    EXPECT_EQ(text_of(*inflate(coding, bytes(text_of(*deflate(coding, parts))), 10'000)),
              head + tail);
  }
}

TEST(ContentCoding, HeadersAreWhatOtherProgramsExpect) {
  EXPECT_EQ(packed(Coding::kGzip, "x").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(packed(Coding::kDeflate, "x")[0], '\x78') << "zlib's header, not raw deflate";
}

TEST(ContentCoding, RawDeflateIsTolerated) {
  const std::string text(1000, 'r');
  const std::string zlib = packed(Coding::kDeflate, text);
  const std::string raw_deflate = zlib.substr(2, zlib.size() - 6);
  EXPECT_EQ(text_of(*inflate(Coding::kDeflate, bytes(raw_deflate), 1000)), text);
}

TEST(ContentCoding, GzipMayHaveSeveralMembers) {
  const std::string two = packed(Coding::kGzip, "one,") + packed(Coding::kGzip, "two");
  EXPECT_EQ(text_of(*inflate(Coding::kGzip, bytes(two), 7)), "one,two");
  EXPECT_FALSE(inflate(Coding::kGzip, bytes(two), 6)) << "the limit holds for all together";
}

TEST(ContentCoding, BombsStopAtTheLimit) {
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate, Coding::kIdentity}) {
    const std::string bomb = packed(coding, std::string(20'000'000, '\0'));
    const auto out = inflate(coding, bytes(bomb), 1'000'000);
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::kOverloaded);
    EXPECT_THAT(out.error().message, HasSubstr("more than 1000000 bytes"));
  }
}

TEST(ContentCoding, TheLimitIsExact) {
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate, Coding::kIdentity}) {
    const std::string body = packed(coding, std::string(5000, 'z'));
    EXPECT_TRUE(inflate(coding, bytes(body), 5000));
    EXPECT_FALSE(inflate(coding, bytes(body), 4999));
    EXPECT_FALSE(inflate(coding, bytes(body), 0));
  }
}

TEST(ContentCoding, DamagedBodiesAreInvalid) {
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    const std::string body = packed(coding, noise(5000));
    for (std::size_t size = 0; size < body.size(); size += size < 40 ? 1 : 211) {
      const auto out = inflate(coding, bytes(body.substr(0, size)), 10'000);
      ASSERT_FALSE(out) << size;
      EXPECT_EQ(out.error().code, Code::kInvalid);
    }
    EXPECT_THAT(inflate(coding, bytes(body.substr(0, 100)), 10'000).error().message,
                HasSubstr("cut off"));
    EXPECT_FALSE(inflate(coding, bytes(body + "tail"), 10'000));
    std::string flipped = body;
    flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);
    EXPECT_FALSE(inflate(coding, bytes(flipped), 10'000)) << "the checksum is checked";
    EXPECT_FALSE(inflate(coding, bytes("plain text"), 10'000));
  }
}

TEST(ContentCoding, ContentEncodingNamesOneKnownCoding) {
  EXPECT_EQ(*parse_content_encoding(""), Coding::kIdentity);
  EXPECT_EQ(*parse_content_encoding("identity"), Coding::kIdentity);
  EXPECT_EQ(*parse_content_encoding(" GZip "), Coding::kGzip);
  EXPECT_EQ(*parse_content_encoding("x-gzip"), Coding::kGzip);
  EXPECT_EQ(*parse_content_encoding("deflate"), Coding::kDeflate);
  for (const char* value : {"br", "gzip, gzip", "gzip;q=1", "zstd"}) {
    const auto coding = parse_content_encoding(value);
    ASSERT_FALSE(coding) << value;
    EXPECT_THAT(coding.error().message, HasSubstr(value));
  }
}

TEST(ContentCoding, AcceptEncodingIsReadByWeight) {
  const std::vector<std::pair<const char*, Coding>> cases{
      {"", Coding::kIdentity},
      {"gzip", Coding::kGzip},
      {"deflate", Coding::kDeflate},
      {"gzip, deflate", Coding::kGzip},
      {"deflate, gzip", Coding::kGzip},
      {"deflate;q=1.0, gzip;q=0.5", Coding::kDeflate},
      {"GZIP ; Q=0.2 , Deflate;q=0.1", Coding::kGzip},
      {"gzip;q=0, deflate", Coding::kDeflate},
      {"gzip;q=0", Coding::kIdentity},
      {"gzip;q=0.000", Coding::kIdentity},
      {"br, zstd", Coding::kIdentity},
      {"br;q=1, gzip;q=0.1", Coding::kGzip},
      {"identity, gzip;q=0.5", Coding::kIdentity},
      {"identity;q=0.5, gzip;q=0.5", Coding::kGzip},
      {"*", Coding::kIdentity},
      {"gzip;q=0.3, *;q=0.9", Coding::kIdentity},
      {"gzip, *;q=0", Coding::kGzip},
      {"identity;q=0", Coding::kIdentity},
      {"gzip;q=2", Coding::kIdentity},
      {"gzip;q=x, deflate", Coding::kDeflate},
      {"gzip;q=nan", Coding::kIdentity},
      {", ,gzip,,", Coding::kGzip},
      {";;;===,q", Coding::kIdentity},
  };
  for (const auto& [value, coding] : cases) EXPECT_EQ(choose_coding(value), coding) << value;
}

}  // namespace
}  // namespace gradus::api
