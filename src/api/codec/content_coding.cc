#include "api/codec/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

namespace gradus::api {
namespace {

constexpr std::size_t kMostChunk = std::numeric_limits<uInt>::max();
constexpr int kZlibWindow = 15;
constexpr int kGzipWindow = 15 + 16;
constexpr int kRawWindow = -15;

Bytef* bytes_at(const std::byte* at) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(at));  // zlib only reads its input
}

// Lets zlib read from `from`, and drops that from it.
void feed(z_stream& stream, std::span<const std::byte>& from) {
  const std::size_t size = std::min(from.size(), kMostChunk);
  stream.next_in = bytes_at(from.data());
  stream.avail_in = static_cast<uInt>(size);
  from = from.subspan(size);
}

class Inflater {
 public:
  explicit Inflater(int window) : good_(inflateInit2(&stream_, window) == Z_OK) {}
  ~Inflater() {
    if (good_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool good() const { return good_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool good_;
};

class Deflater {
 public:
  explicit Deflater(int window)
      : good_(deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) ==
              Z_OK) {}
  ~Deflater() {
    if (good_) deflateEnd(&stream_);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  bool good() const { return good_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool good_;
};

// RFC 1950, 2.2: method 8, and the two bytes are a multiple of 31.
bool has_zlib_header(std::span<const std::byte> body) {
  if (body.size() < 2) return false;
  const auto first = std::to_integer<unsigned>(body[0]);
  const auto second = std::to_integer<unsigned>(body[1]);
  return (first & 15) == 8 && (first * 256 + second) % 31 == 0;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Cuts `list` at the first `separator` and returns what was before it, trimmed.
std::string_view next_part(std::string_view& list, char separator) {
  const auto end = list.find(separator);
  const std::string_view part = trim(list.substr(0, end));
  list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  return part;
}

// The weight among a coding's parameters, in [0, 1]; 1 without one, nothing for a malformed one.
std::optional<double> weight(std::string_view parameters) {
  double q = 1;
  while (!parameters.empty()) {
    std::string_view value = next_part(parameters, ';');
    if (lower(next_part(value, '=')) != "q") continue;
    value = trim(value);
    const auto read = std::from_chars(value.data(), value.data() + value.size(), q);
    if (read.ec != std::errc() || read.ptr != value.data() + value.size()) return std::nullopt;
    if (!(q >= 0 && q <= 1)) return std::nullopt;
  }
  return q;
}

tl::unexpected<Error> corrupt(Coding coding, std::string_view why) {
  std::string text(coding_name(coding));
  text += " body is corrupt: ";
  return fail(Code::kInvalid, text += why);
}

tl::unexpected<Error> too_large(std::size_t most_bytes) {
  return fail(Code::kOverloaded, "body has more than " + std::to_string(most_bytes) +
                                     " bytes when it is decompressed");
}

}  // namespace

std::string_view coding_name(Coding coding) {
  switch (coding) {
    case Coding::kIdentity:
      return "identity";
    case Coding::kGzip:
      return "gzip";
    case Coding::kDeflate:
      return "deflate";
  }
  std::abort();
}

Result<Coding> parse_content_encoding(std::string_view value) {
  const std::string name = lower(trim(value));
  if (name.empty() || name == "identity") return Coding::kIdentity;
  if (name == "gzip" || name == "x-gzip") return Coding::kGzip;
  if (name == "deflate") return Coding::kDeflate;
  return fail(Code::kInvalid, "Content-Encoding is '" + name.substr(0, 80) +
                                  "'; expected gzip, deflate or identity");
}

Coding choose_coding(std::string_view accept_encoding) {
  double gzip = 0;
  double deflate = 0;
  std::optional<double> identity;
  std::optional<double> others;
  while (!accept_encoding.empty()) {
    std::string_view item = next_part(accept_encoding, ',');
    const std::string name = lower(next_part(item, ';'));
    const auto q = weight(item);
    if (!q) continue;
    if (name == "gzip" || name == "x-gzip") gzip = *q;
    if (name == "deflate") deflate = *q;
    if (name == "identity") identity = *q;
    if (name == "*") others = *q;
  }
  const double best = std::max(gzip, deflate);
  if (best <= 0 || best < identity.value_or(others.value_or(0))) return Coding::kIdentity;
  return gzip >= deflate ? Coding::kGzip : Coding::kDeflate;
}

Result<std::vector<std::byte>> inflate(Coding coding, std::span<const std::byte> body,
                                       std::size_t most_bytes) {
  if (coding == Coding::kIdentity) {
    if (body.size() > most_bytes) return too_large(most_bytes);
    return std::vector<std::byte>(body.begin(), body.end());
  }
  Inflater inflater(coding == Coding::kGzip ? kGzipWindow
                    : has_zlib_header(body) ? kZlibWindow
                                            : kRawWindow);
  if (!inflater.good()) return fail(Code::kInternal, "no memory to decompress a body");
  z_stream& stream = inflater.stream();
  std::vector<std::byte> out(std::min(most_bytes, std::max<std::size_t>(4096, body.size() * 4)));
  std::size_t used = 0;
  std::byte spare{};  // tells whether there is more when the limit is reached
  for (;;) {
    if (stream.avail_in == 0) feed(stream, body);
    if (used == out.size() && used < most_bytes) {
      out.resize(used > most_bytes / 2 ? most_bytes : used * 2);
    }
    const bool at_limit = used == most_bytes;
    const std::size_t room = at_limit ? 1 : std::min(out.size() - used, kMostChunk);
    stream.next_out = bytes_at(at_limit ? &spare : out.data() + used);
    stream.avail_out = static_cast<uInt>(room);
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t written = room - stream.avail_out;
    if (at_limit && written > 0) return too_large(most_bytes);
    used += written;
    if (code == Z_STREAM_END) {
      if (stream.avail_in == 0) feed(stream, body);
      if (stream.avail_in == 0) break;
      if (coding != Coding::kGzip) return corrupt(coding, "something follows its end");
      if (inflateReset(&stream) != Z_OK) return corrupt(coding, "bad state");
      continue;  // a gzip file may have several members (RFC 1952, 2.2)
    }
    if (code != Z_OK && code != Z_BUF_ERROR) {
      return corrupt(coding, stream.msg != nullptr ? stream.msg : "unreadable");
    }
    if (stream.avail_in == 0 && body.empty() && stream.avail_out > 0) {
      return corrupt(coding, "it is cut off");
    }
  }
  out.resize(used);
  return out;
}

Result<std::vector<std::byte>> deflate(Coding coding,
                                       std::span<const std::span<const std::byte>> parts) {
  std::size_t size = 0;
  for (const auto& part : parts) size += part.size();
  if (coding == Coding::kIdentity) {
    std::vector<std::byte> out;
    out.reserve(size);
    for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  }
  Deflater deflater(coding == Coding::kGzip ? kGzipWindow : kZlibWindow);
  if (!deflater.good()) return fail(Code::kInternal, "no memory to compress a body");
  z_stream& stream = deflater.stream();
  std::vector<std::byte> out(deflateBound(&stream, static_cast<uLong>(size)));
  std::size_t used = 0;
  std::size_t next = 0;
  std::span<const std::byte> part;
  for (;;) {
    while (stream.avail_in == 0 && (!part.empty() || next < parts.size())) {
      if (part.empty()) part = parts[next++];
      feed(stream, part);
    }
    const bool last = part.empty() && next == parts.size();
    if (used == out.size()) out.resize(used + used / 2 + 4096);
    const std::size_t room = std::min(out.size() - used, kMostChunk);
    stream.next_out = bytes_at(out.data() + used);
    stream.avail_out = static_cast<uInt>(room);
    const int code = ::deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    used += room - stream.avail_out;
    if (code == Z_STREAM_END) break;
  }
  out.resize(used);
  return out;
}

}  // namespace gradus::api
