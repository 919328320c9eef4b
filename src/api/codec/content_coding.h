// Content codings of HTTP bodies (RFC 9110, 8.4 and 12.5.3): gzip and deflate, by zlib.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gradus::api {

enum class Coding : std::uint8_t { kIdentity, kGzip, kDeflate };

/// `identity`, `gzip`, `deflate`: the value of a Content-Encoding header.
std::string_view coding_name(Coding coding);

/// Value of a request's Content-Encoding, in any case; "" is identity, `x-gzip` is gzip. kInvalid
/// for other codings and for lists of several (HTTP's own code for that is 415).
Result<Coding> parse_content_encoding(std::string_view value);

/// The best coding that an Accept-Encoding header allows, by q value, then gzip before deflate
/// before identity. "" and values that name nothing known give identity, and so does an explicit
/// refusal of everything.
Coding choose_coding(std::string_view accept_encoding);

/// Decompresses a whole body. Never holds more than `most_bytes` of output: kOverloaded names that
/// limit when there would be more (HTTP's own code for that is 413). kInvalid: the data is corrupt,
/// cut off or followed by something else. `deflate` may come with zlib's header, as it should, or
/// raw.
Result<std::vector<std::byte>> inflate(Coding coding, std::span<const std::byte> body,
                                       std::size_t most_bytes);

/// Compresses the parts as one body, at zlib's fastest level: tensors gain little from a slower
/// one. kInternal only when memory runs out.
Result<std::vector<std::byte>> deflate(Coding coding,
                                       std::span<const std::span<const std::byte>> parts);

}  // namespace gradus::api
