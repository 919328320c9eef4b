#include "api/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstring>
#include <optional>
#include <vector>

namespace gradus::api {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastView = boost::beast::string_view;

// Beast's tokenizer with our storage: names and values lie in one string that is used again for
// each request, so that a header costs no allocation.
class Tokenizer final : public http::basic_parser<true> {
 public:
  struct Piece {
    std::size_t at, size;
  };
  struct Field {
    Piece name, value;
  };
  struct Storage {
    std::string text;
    Piece method{}, target{};
    int version = 11;
    std::vector<Field> fields;
  };

  Tokenizer(Storage& storage, const ParserLimits& limits) : storage_(storage) {
    storage_.text.clear();
    storage_.version = 11;
    storage_.fields.clear();
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(limits.body_bytes);
    eager(false);
  }

  void set_room(std::span<std::byte> room) {
    room_ = room;
    written_ = 0;
  }
  std::size_t written() const { return written_; }

 private:
  Piece keep(BeastView text) {
    const Piece piece{storage_.text.size(), text.size()};
    storage_.text.append(text.data(), text.size());
    return piece;
  }

  void on_request_impl(http::verb, BeastView method, BeastView target, int version,
                       error_code&) override {
    storage_.method = keep(method);
    storage_.target = keep(target);
    storage_.version = version;
  }
  void on_response_impl(int, BeastView, int, error_code&) override {}
  void on_field_impl(http::field, BeastView name, BeastView value, error_code&) override {
    if (header_done_) return;  // a trailer: nothing here has a meaning for one
    const Piece kept_name = keep(name);
    storage_.fields.push_back({kept_name, keep(value)});
  }
  void on_header_impl(error_code&) override { header_done_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(BeastView, error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, BeastView, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, error_code&) override {
    const std::size_t n = std::min(body.size(), room_.size() - written_);
    std::memcpy(room_.data() + written_, body.data(), n);
    written_ += n;
    return n;
  }
  void on_finish_impl(error_code&) override {}

  Storage& storage_;
  std::span<std::byte> room_;
  std::size_t written_ = 0;
  bool header_done_ = false;
};

// `GET / HTTP/2.0`: well-formed as far as it goes.
bool speaks_other_version(std::string_view line) {
  const std::size_t at = line.find(" HTTP/");
  if (at == line.npos || line.size() < at + 9 || line[at + 7] != '.') return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view version = line.substr(at + 6, 3);
  return digit(version[0]) && digit(version[2]) && version != "1.1" && version != "1.0";
}

RequestParser::Refusal refusal_of(const error_code& ec, std::string_view line,
                                  const ParserLimits& limits) {
  if (ec == http::error::header_limit) {
    return {431, "the request's header is larger than " + std::to_string(limits.header_bytes) +
                     " bytes"};
  }
  if (ec == http::error::body_limit) {
    return {413,
            "the request's body is larger than " + std::to_string(limits.body_bytes) + " bytes"};
  }
  if (ec == http::error::bad_version) {
    if (speaks_other_version(line)) return {505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
    return {400, "malformed request line"};
  }
  if (ec == http::error::bad_transfer_encoding) {
    return {400, "Transfer-Encoding comes twice or beside Content-Length"};
  }
  if (ec == http::error::bad_content_length) {
    return {400, "Content-Length is not a number, or comes beside Transfer-Encoding"};
  }
  if (ec == http::error::multiple_content_length) {
    return {400, "Content-Length comes twice with different values"};
  }
  return {400, "malformed HTTP request: " + ec.message()};
}

bool valid_host(std::string_view host) { return host.find_first_of(" \t,/\\@?#\"<>") == host.npos; }

// `http://host:port/path` -> `/path` (RFC 9112, section 3.2.2).
std::string_view without_authority(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!equal_ignoring_case(target.substr(0, kScheme.size()), kScheme)) return target;
  const std::size_t path = target.find('/', kScheme.size());
  return path == target.npos ? "/" : target.substr(path);
}

}  // namespace

class RequestParser::Impl {
 public:
  explicit Impl(const ParserLimits& parser_limits) : limits(parser_limits) { reset(); }

  void reset() {
    tokenizer.emplace(storage, limits);
    header_taken = 0;
    headers.clear();
    method = target = {};
    refusal = {};
    chunked = false;
    chunks_begun = false;
    expects_continue = false;
  }

  Progress refuse(int status, std::string text) {
    refusal = {status, std::move(text)};
    return Progress::kRefused;
  }

  std::string_view text(Tokenizer::Piece piece) const {
    return std::string_view(storage.text).substr(piece.at, piece.size);
  }

  // What RFC 9112 wants checked once all headers are known.
  Progress check_header() {
    if (storage.fields.size() > limits.headers) {
      return refuse(431, "more than " + std::to_string(limits.headers) + " headers");
    }
    const bool http_1_0 = storage.version == 10;
    method = text(storage.method);
    target = without_authority(text(storage.target));
    std::size_t hosts = 0;
    std::size_t codings = 0;
    for (const Tokenizer::Field& field : storage.fields) {
      const HttpHeader& h = headers.emplace_back(HttpHeader{text(field.name), text(field.value)});
      if (equal_ignoring_case(h.name, "host")) {
        if (++hosts > 1) return refuse(400, "more than one Host header");
        if (!valid_host(h.value)) return refuse(400, "malformed Host header");
      } else if (equal_ignoring_case(h.name, "transfer-encoding")) {
        ++codings;
        if (http_1_0) return refuse(400, "Transfer-Encoding in an HTTP/1.0 request");
        if (codings > 1 || !equal_ignoring_case(h.value, "chunked")) {
          return refuse(501, "the only transfer coding known here is chunked");
        }
      } else if (equal_ignoring_case(h.name, "expect") && !http_1_0) {
        if (!equal_ignoring_case(h.value, "100-continue")) {
          return refuse(417, "the only expectation known here is 100-continue");
        }
        expects_continue = true;
      }
    }
    if (hosts == 0 && !http_1_0) return refuse(400, "no Host header");
    chunked = codings == 1;
    return Progress::kHeader;
  }

  const ParserLimits limits;
  Tokenizer::Storage storage;
  std::optional<Tokenizer> tokenizer;
  std::size_t header_taken = 0;
  std::vector<HttpHeader> headers;
  std::string_view method, target;
  Refusal refusal;
  bool chunked = false;
  bool chunks_begun = false;  // some of the chunked body is taken
  bool expects_continue = false;
};

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

void RequestParser::reset() { impl_->reset(); }

RequestParser::Progress RequestParser::feed(std::span<const char> bytes, std::size_t& taken) {
  Impl& p = *impl_;
  taken = 0;
  if (!p.tokenizer->got_some()) {  // empty lines before a request line (RFC 9112, section 2.2)
    while (taken < bytes.size() && (bytes[taken] == '\r' || bytes[taken] == '\n')) ++taken;
    if (taken == bytes.size()) return Progress::kNeedMore;
  }
  const std::span<const char> rest = bytes.subspan(taken);
  error_code ec;
  const std::size_t n = p.tokenizer->put({rest.data(), rest.size()}, ec);
  taken += n;
  p.header_taken += n;
  const bool need_more = ec == http::error::need_more;
  const std::size_t seen = p.header_taken + (need_more ? rest.size() - n : 0);
  if ((!ec || need_more) && seen > p.limits.header_bytes) ec = http::error::header_limit;
  if (need_more && ec == http::error::need_more) return Progress::kNeedMore;
  if (ec) {
    const std::string_view text(rest.data(), rest.size());
    p.refusal = refusal_of(ec, text.substr(0, text.find('\r')), p.limits);
    return Progress::kRefused;
  }
  return p.check_header();
}

RequestParser::Progress RequestParser::feed_chunked(std::span<const char> bytes, std::size_t& taken,
                                                    std::span<std::byte> room,
                                                    std::size_t& written) {
  Tokenizer& tokenizer = *impl_->tokenizer;
  tokenizer.set_room(room);
  taken = 0;
  Progress progress = Progress::kNeedMore;
  while (taken < bytes.size()) {
    // Beast 1.81 asserts that it sees an empty body's last chunk, `0 CRLF CRLF`, as a whole.
    if (!impl_->chunks_begun && bytes[0] == '0' && bytes.size() < 5) break;
    error_code ec;
    const std::size_t n = tokenizer.put({bytes.data() + taken, bytes.size() - taken}, ec);
    taken += n;
    impl_->chunks_begun |= n > 0;
    if (ec == http::error::need_more) break;
    if (ec) {
      impl_->refusal = refusal_of(ec, {}, impl_->limits);
      progress = Progress::kRefused;
      break;
    }
    if (tokenizer.is_done()) {
      progress = Progress::kDone;
      break;
    }
    if (n == 0) {
      progress = Progress::kNeedRoom;
      break;
    }
  }
  written = tokenizer.written();
  return progress;
}

const RequestParser::Refusal& RequestParser::refusal() const { return impl_->refusal; }
std::string_view RequestParser::method() const { return impl_->method; }
std::string_view RequestParser::target() const { return impl_->target; }
std::span<const HttpHeader> RequestParser::headers() const { return impl_->headers; }
bool RequestParser::chunked() const { return impl_->chunked; }
std::uint64_t RequestParser::content_length() const {
  return impl_->tokenizer->content_length().value_or(0);
}
bool RequestParser::keep_alive() const { return impl_->tokenizer->keep_alive(); }
bool RequestParser::http_1_0() const { return impl_->storage.version == 10; }
bool RequestParser::expects_continue() const { return impl_->expects_continue; }

}  // namespace gradus::api
