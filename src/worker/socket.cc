#include "worker/socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace gradus::worker {
namespace {

constexpr int kSendBuffer = 2 * static_cast<int>(sizeof(Header) + kMaxBody);

// Takes all that came, so that none stays open; nothing unless it was at most one.
std::optional<Fd> take_fd(msghdr& header) {
  std::vector<Fd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  if (fds.size() > 1) return std::nullopt;
  return fds.empty() ? Fd() : std::move(fds.front());
}

}  // namespace

Result<std::pair<Socket, Socket>> Socket::pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Code::kInternal, std::string("no socket pair: ") + std::strerror(errno));
  }
  std::pair<Socket, Socket> made{Socket(Fd(ends[0])), Socket(Fd(ends[1]))};
  for (const int end : ends) {  // as far as the machine allows
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  }
  return made;
}

Result<void> Socket::send(Kind kind, std::uint64_t request, std::span<const std::byte> body,
                          int fd) {
  if (body.size() > kMaxBody) {
    return fail(Code::kInternal, "a message of " + std::to_string(body.size()) +
                                     " bytes: at most " + std::to_string(kMaxBody));
  }
  Header header{.kind = static_cast<std::uint32_t>(kind),
                .body_bytes = static_cast<std::uint32_t>(body.size()),
                .request = request};
  std::array<iovec, 2> parts{
      {{&header, sizeof header}, {const_cast<std::byte*>(body.data()), body.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  while (sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    return fail(Code::kUnavailable,
                errno == EAGAIN ? "the peer does not read its messages" : std::strerror(errno));
  }
  return {};
}

Result<std::optional<Message>> Socket::receive() {
  if (buffer_.empty()) buffer_.resize(sizeof(Header) + kMaxBody);
  iovec part{buffer_.data(), buffer_.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t bytes = 0;
  do {
    bytes = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0 && errno != ECONNRESET) {
    return fail(Code::kInternal, std::string("cannot receive: ") + std::strerror(errno));
  }
  auto fd = take_fd(header);
  if (bytes <= 0) return std::optional<Message>();
  if (!fd || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(Code::kInternal, "an oversized message came");
  }
  Header head;
  if (static_cast<std::size_t>(bytes) < sizeof head) {
    return fail(Code::kInternal, "a truncated message of " + std::to_string(bytes) + " bytes came");
  }
  std::memcpy(&head, buffer_.data(), sizeof head);
  const std::size_t body_bytes = static_cast<std::size_t>(bytes) - sizeof head;
  if (head.magic != kMagic || head.version != kWireVersion || head.body_bytes != body_bytes) {
    return fail(Code::kInternal,
                "what came is no message of version " + std::to_string(kWireVersion));
  }
  return Message{static_cast<Kind>(head.kind), head.request,
                 std::span<const std::byte>(buffer_).subspan(sizeof head, body_bytes),
                 std::move(*fd)};
}

}  // namespace gradus::worker
