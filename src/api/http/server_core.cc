#include "api/http/server_core.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <utility>

#include "api/http/connection.h"
#include "base/log.h"
#include "base/open_files.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

constexpr std::size_t kRefusedAtOnce = 64;  // connections over the cap that are told so
constexpr Duration kTrimEvery = 10s;
constexpr Duration kCapLogEvery = 10s;
constexpr auto kAcceptPause = 50ms;  // after accept found no descriptor or memory
constexpr auto kStopPoll = 2ms;

std::chrono::milliseconds sweep_period(const config::HttpConfig& config) {
  const auto shortest = std::min({config.header_timeout, config.body_timeout, config.idle_timeout});
  return std::clamp<std::chrono::milliseconds>(shortest / 4, 5ms, 100ms);
}

std::vector<std::unique_ptr<asio::io_context>> loops(int threads) {
  std::vector<std::unique_ptr<asio::io_context>> all;
  all.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) all.push_back(std::make_unique<asio::io_context>(1));
  return all;
}

}  // namespace

struct ServerCore::Listener {
  explicit Listener(asio::io_context& io) : acceptor(io), pause(io), sweep_timer(io) {}

  asio::basic_socket_acceptor<asio::ip::tcp, Executor> acceptor;
  Timer pause;
  Timer sweep_timer;
  std::size_t next_loop = 0;  // that gets a connection
  bool open = false;
  bool sweeping = false;
  std::vector<asio::executor_work_guard<Executor>> until_stop;  // loops run without work, too
  TimePoint next_trim{};
  TimePoint next_cap_log{};
};

ServerCore::ServerCore(const config::HttpConfig& http_config, Handler& request_handler,
                       int thread_count, const Clock& server_clock, worker::SharedPool& body_pool,
                       std::size_t connection_cap)
    : config(http_config),
      limits{http_config.max_header_size, 100, http_config.max_input_size},
      handler(request_handler),
      clock(server_clock),
      pool(body_pool),
      cap_(connection_cap > 0 ? connection_cap : room_for_http()),
      loops_(loops(thread_count)),
      listener_(std::make_unique<Listener>(*loops_.front())) {}

ServerCore::~ServerCore() = default;

Result<std::uint16_t> ServerCore::start() {
  using asio::ip::tcp;
  const std::string where = config.address + ":" + std::to_string(config.port);
  error_code ec;
  tcp::endpoint endpoint(asio::ip::make_address(config.address, ec), config.port);
  if (ec) {
    tcp::resolver resolver(*loops_.front());
    const auto found =
        resolver.resolve(config.address, std::to_string(config.port), tcp::resolver::passive, ec);
    if (ec || found.empty()) return fail(Code::kUnavailable, where + ": unknown address");
    endpoint = *found.begin();
  }
  auto& acceptor = listener_->acceptor;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) acceptor.native_non_blocking(true, ec);
  if (!ec) endpoint = acceptor.local_endpoint(ec);
  if (ec) return fail(Code::kUnavailable, where + ": " + ec.message());

  asio::post(*loops_.front(), [this] {
    listener_->open = true;
    listener_->sweeping = true;
    listener_->next_trim = clock.now() + kTrimEvery;
    wait_for_clients();
    sweep();
  });
  for (const auto& loop : loops_) {
    listener_->until_stop.push_back(asio::make_work_guard(*loop));
    pool_threads_.emplace_back([&io = *loop] {
      for (;;) {
        try {
          io.run();
          return;
        } catch (const std::exception& e) {
          log::error("http: unexpected exception", {{"what", e.what()}});
        }
      }
    });
  }
  return endpoint.port();
}

void ServerCore::wait_for_clients() {
  listener_->acceptor.async_wait(asio::socket_base::wait_read, [this](const error_code&) {
    if (!listener_->open) return;
    if (accept_waiting()) return wait_for_clients();
    listener_->pause.expires_after(kAcceptPause);
    listener_->pause.async_wait([this](const error_code&) {
      if (listener_->open) wait_for_clients();
    });
  });
}

// accept4 rather than Asio's accept, so that no child process inherits a client's connection.
// False: the system has no descriptor or memory for another connection.
bool ServerCore::accept_waiting() {
  for (;;) {
    const int descriptor = ::accept4(listener_->acceptor.native_handle(), nullptr, nullptr,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      admit(descriptor);
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return false;
    }  // else the client has gone already: the next one
  }
}

void ServerCore::admit(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::size_t open = connection_count();
  if (open >= cap_ && clock.now() >= listener_->next_cap_log) {
    listener_->next_cap_log = clock.now() + kCapLogEvery;
    log::warning("http: refusing connections, too many are open",
                 {{"open", std::to_string(open)}, {"limit", std::to_string(cap_)}});
  }
  if (open >= cap_ + kRefusedAtOnce) {
    ::close(descriptor);
    return;
  }
  auto& loop = *loops_[listener_->next_loop++ % loops_.size()];
  const auto connection = std::make_shared<Connection>(shared_from_this(), loop, descriptor);
  {
    const MutexLock lock(mutex_);
    connections_.insert(connection);
  }
  open >= cap_ ? connection->start_refusing() : connection->start();
}

void ServerCore::sweep() {
  if (!listener_->sweeping) return;
  const TimePoint now = clock.now();
  for (const auto& connection : snapshot()) {
    if (connection->deadline() <= now) connection->overdue();
    if (connection->handling()) connection->watch();
  }
  if (now >= listener_->next_trim) {
    listener_->next_trim = now + kTrimEvery;
    pool.trim();
  }
  listener_->sweep_timer.expires_after(sweep_period(config));
  listener_->sweep_timer.async_wait([this](const error_code&) { sweep(); });
}

std::vector<std::shared_ptr<Connection>> ServerCore::snapshot() const {
  const MutexLock lock(mutex_);
  return {connections_.begin(), connections_.end()};
}

std::size_t ServerCore::connection_count() const {
  const MutexLock lock(mutex_);
  return connections_.size();
}

void ServerCore::remove(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(mutex_);
  connections_.erase(connection);
}

void ServerCore::drain() {
  if (draining.exchange(true)) return;
  for (const auto& connection : snapshot()) connection->drain();
}

// Whoever has connected before the listener closes is served: the kernel's queue is emptied first.
void ServerCore::close_listener() {
  std::promise<void> closed;
  asio::post(*loops_.front(), [this, &closed] {
    accept_waiting();
    listener_->open = false;
    error_code ignored;
    listener_->acceptor.close(ignored);
    listener_->pause.cancel();
    closed.set_value();
  });
  closed.get_future().wait();
}

void ServerCore::stop(TimePoint deadline) {
  if (pool_threads_.empty()) return;
  drain();
  const auto wait_while = [&](auto&& condition) {
    while (clock.now() < deadline && condition()) std::this_thread::sleep_for(kStopPoll);
  };
  const auto any = [&](bool (Connection::*is)() const) {
    const auto all = snapshot();
    return std::any_of(all.begin(), all.end(), [&](const auto& c) { return (*c.*is)(); });
  };
  wait_while([&] { return any(&Connection::busy); });
  close_listener();
  wait_while([&] {
    for (const auto& connection : snapshot()) connection->close_idle();
    return any(&Connection::busy) || any(&Connection::idle);
  });
  for (const auto& connection : snapshot()) connection->abort();
  asio::post(*loops_.front(), [this] {
    listener_->sweeping = false;
    listener_->sweep_timer.cancel();
  });
  listener_->until_stop.clear();
  pool_threads_.clear();  // each returns when nothing is left to do
}

}  // namespace gradus::api
