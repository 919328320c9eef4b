// Unary gRPC calls over one connection of HTTP/2, made for load: no thread of its own,
// non-blocking. nghttp2 makes and reads the frames; that takes a fraction of the CPU that gRPC's
// own library does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct nghttp2_session;

namespace gradus::bench {

/// A message as gRPC sends it: not compressed, its size before it.
std::string framed(std::string_view message);

/// What has come for a call.
struct GrpcAnswer {
  std::optional<int> status;  // nothing: the call ended without one
  std::string details;
  std::optional<int> level;       // `gradus-level`
  std::string message;            // empty if it was not to be kept
  std::size_t message_bytes = 0;  // behind the prefix
  std::string prefix;             // of the message

  void take(std::string_view data, bool keep);
  void take_header(std::string_view name, std::string_view value);
  /// One whole message and status OK; kInternal.
  Result<void> check() const;
};

/// One call after the other, on one connection. It stays where it is while one is under way.
struct GrpcCall {
  std::int32_t stream = 0;    // 0: none is under way
  std::string_view unsent{};  // of the request
  bool keep = false;          // the answer's message
  GrpcAnswer answer{};
};

/// Bytes on their way to a socket: the heads of frames are kept here, their bodies are borrowed.
class Outgoing {
 public:
  bool empty() const { return frames_.empty(); }
  void add(std::string_view head, std::string_view body = {});
  /// As much as the socket takes at once. kUnavailable: it takes no more.
  Result<void> write(int socket);

 private:
  struct Frame {
    std::size_t head_bytes = 0;
    std::string_view body{};
  };

  void drop(std::size_t written);

  std::string heads_;
  std::vector<Frame> frames_;
  std::size_t heads_written_ = 0;  // bytes
  std::size_t written_ = 0;        // frames
};

/// An error ends its use. It stays where it is: nghttp2 knows its address.
class GrpcConnection {
 public:
  /// Connects to that port of 127.0.0.1; kUnavailable when nobody listens there.
  static Result<std::unique_ptr<GrpcConnection>> open(std::uint16_t port);
  ~GrpcConnection();
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  int fd() const { return fd_; }
  bool wants_to_write() const { return !outgoing_.empty(); }

  /// Begins ModelInfer, when the call has none under way; write() sends it.
  /// @param request framed; borrowed until the answer is there
  Result<void> begin(GrpcCall& call, std::string_view request);
  /// Sends what there is, as far as the socket takes it.
  Result<void> write();
  /// Takes what has come, once; the calls that have their answers are in done() until the next
  /// time. kUnavailable, kInternal: the connection was closed, or a call was reset.
  Result<void> read();
  const std::vector<GrpcCall*>& done() const { return done_; }

 private:
  GrpcConnection(int fd, std::uint16_t port);
  GrpcCall* call_of(std::int32_t stream) const;
  int on_answer_end(std::int32_t stream);
  int on_stream_end(std::int32_t stream, std::uint32_t error);
  int give_up(std::string why);
  Result<void> broken() const;

  const int fd_;
  const std::string authority_;
  nghttp2_session* session_ = nullptr;
  Outgoing outgoing_;
  std::vector<GrpcCall*> done_;
  std::string wrong_;  // with what came; empty: not known
};

}  // namespace gradus::bench
