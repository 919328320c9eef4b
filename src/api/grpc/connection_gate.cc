#include "api/grpc/connection_gate.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;

constexpr int kPauseMs = 50;  // after accept found no descriptor or memory
constexpr Duration kLogEvery = 10s;

std::optional<std::uint64_t> inode_of(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  return found.st_ino;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<worker::Fd> bound(const addrinfo& where, std::uint16_t& port) {
  worker::Fd listener(::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  const auto failed = [] { return fail(Code::kUnavailable, std::strerror(errno)); };
  if (!listener) return failed();
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.ai_family == AF_INET6) {  // `::` is every interface, IPv4's too
    ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  sockaddr_storage got{};
  socklen_t size = sizeof got;
  if (::bind(listener.get(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&got), &size) != 0) {
    return failed();
  }
  port = ntohs(got.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(got).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(got).sin_port);
  return listener;
}

}  // namespace

ConnectionGate::ConnectionGate(std::size_t most, Admit admit, const Clock& clock)
    : most_(most), admit_(std::move(admit)), clock_(clock) {}

ConnectionGate::~ConnectionGate() { stop(); }

Result<std::uint16_t> ConnectionGate::listen(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) return fail(Code::kUnavailable, ::gai_strerror(unknown));
  const Addresses addresses(found, &::freeaddrinfo);
  auto listener = bound(*addresses, port);
  if (!listener) return fail(Code::kUnavailable, listener.error().message);
  listener_ = std::move(*listener);
  stopped_ = worker::Fd(::eventfd(0, EFD_CLOEXEC));
  if (!stopped_) return fail(Code::kUnavailable, std::strerror(errno));
  return port;
}

void ConnectionGate::open() {
  thread_ = std::jthread([this] { accept_until_stopped(); });
}

void ConnectionGate::stop() {
  if (thread_.joinable()) {
    ::eventfd_write(stopped_.get(), 1);
    thread_.join();
  }
  listener_ = worker::Fd();
}

void ConnectionGate::accept_until_stopped() {
  pollfd waited[] = {{stopped_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (;;) {
    ::poll(waited, 2, -1);
    if (waited[0].revents != 0) return;
    if (!accept_waiting()) {
      ::poll(waited, 1, kPauseMs);
      if (waited[0].revents != 0) return;
    }
  }
}

// False: the system has no descriptor or memory for another connection.
bool ConnectionGate::accept_waiting() {
  for (;;) {
    const int connection =
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EAGAIN) return true;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return false;
      continue;  // the client has gone already: the next one
    }
    const auto inode = inode_of(connection);
    if (!inode || !has_room()) {
      tell_of_refusal();
      ::close(connection);
      continue;
    }
    const int on = 1;
    ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    admitted_.push_back({connection, *inode});
    admit_(listener_.get(), connection);
  }
}

// Nobody says when gRPC closes a connection: those that are gone are looked for when it matters.
bool ConnectionGate::has_room() {
  if (admitted_.size() < most_) return true;
  std::erase_if(admitted_, [](const Admitted& connection) {
    return inode_of(connection.descriptor) != connection.inode;
  });
  return admitted_.size() < most_;
}

void ConnectionGate::tell_of_refusal() {
  if (clock_.now() < next_log_) return;
  next_log_ = clock_.now() + kLogEvery;
  log::warning("grpc: refusing connections, too many are open", {{"limit", std::to_string(most_)}});
}

}  // namespace gradus::api
