// One end of a packet socket between server and worker. A packet is a whole message or nothing, and
// may carry one file descriptor. Nothing here waits for a peer that is gone or stopped.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/fd.h"
#include "worker/wire.h"

namespace gradus::worker {

struct Message {
  Kind kind = Kind::kPing;
  std::uint64_t request = 0;
  std::span<const std::byte> body;  // in the socket's buffer, until its next receive()
  Fd fd;                            // what it carried, if anything
};

/// One thread at a time receives, one at a time sends.
class Socket {
 public:
  Socket() = default;
  explicit Socket(Fd fd) : fd_(std::move(fd)) {}

  static Result<std::pair<Socket, Socket>> pair();

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  Fd release() { return std::move(fd_); }

  /// Never blocks. kUnavailable: the peer is gone, or does not read; kInternal: body over kMaxBody.
  Result<void> send(Kind kind, std::uint64_t request, std::span<const std::byte> body = {},
                    int fd = -1);

  /// Blocks until there is a message. Nothing: the peer has closed its end.
  /// kInternal: it is no message of this version: truncated, oversized, garbage, many descriptors.
  Result<std::optional<Message>> receive();

 private:
  Fd fd_;
  std::vector<std::byte> buffer_;
};

}  // namespace gradus::worker
