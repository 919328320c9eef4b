// HTTP/1.1 requests out of a stream of bytes (RFC 9112), without sockets or clocks: which bytes
// are a header, which a body, and what is refused because two servers in a row could read it
// differently (conflicting lengths, a length beside a transfer coding, unknown codings, no Host).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/http/http_message.h"

namespace gradus::api {

struct ParserLimits {
  std::size_t header_bytes = 16 << 10;  // request line and headers together
  std::size_t headers = 100;            // how many
  std::uint64_t body_bytes = 64 << 20;  // without the transfer coding
};

/// One thread at a time. The order of calls: feed until kHeader; then, if the body is chunked,
/// feed_chunked until kDone; then reset for the next request. After kRefused only reset.
class RequestParser {
 public:
  enum class Progress { kNeedMore, kHeader, kDone, kNeedRoom, kRefused };

  struct Refusal {
    int status = 0;
    std::string text;
  };

  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();

  void reset();

  /// Takes bytes of a header. Bytes that it does not take must come again, before new ones.
  /// @return kNeedMore, kHeader or kRefused
  Progress feed(std::span<const char> bytes, std::size_t& taken);

  /// Takes bytes of a chunked body and writes what they carry into `room`.
  /// @param written how much of `room` is filled by this call
  /// @return kNeedMore, kNeedRoom (`room` is full), kDone or kRefused
  Progress feed_chunked(std::span<const char> bytes, std::size_t& taken, std::span<std::byte> room,
                        std::size_t& written);

  const Refusal& refusal() const;

  // Valid from kHeader to reset.
  std::string_view method() const;
  std::string_view target() const;
  std::span<const HttpHeader> headers() const;
  bool chunked() const;
  std::uint64_t content_length() const;  // 0: none
  bool keep_alive() const;               // what the client asks for
  bool http_1_0() const;
  bool expects_continue() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradus::api
