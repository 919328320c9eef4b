#include "api/http/outgoing.h"

#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gradus::api {

void Outgoing::add(std::string_view bytes) {
  if (!bytes.empty()) pieces_.push_back({const_cast<char*>(bytes.data()), bytes.size()});
}

void Outgoing::clear() {
  pieces_.clear();
  next_ = 0;
}

std::size_t Outgoing::size() const {
  std::size_t bytes = 0;
  for (std::size_t i = next_; i < pieces_.size(); ++i) bytes += pieces_[i].iov_len;
  return bytes;
}

Outgoing::Sent Outgoing::send(int socket) {
  while (!empty()) {
    msghdr message{};
    message.msg_iov = pieces_.data() + next_;
    message.msg_iovlen = std::min<std::size_t>(pieces_.size() - next_, IOV_MAX);
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      advance(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      return Sent::kSome;
    } else if (errno != EINTR) {
      return Sent::kFailed;
    }
  }
  return Sent::kAll;
}

void Outgoing::advance(std::size_t sent) {
  while (next_ < pieces_.size() && sent >= pieces_[next_].iov_len) sent -= pieces_[next_++].iov_len;
  if (sent == 0) return;
  iovec& part = pieces_[next_];
  part.iov_base = static_cast<char*>(part.iov_base) + sent;
  part.iov_len -= sent;
}

}  // namespace gradus::api
