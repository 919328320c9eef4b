// A client that sends exactly the bytes it is told and reads answers with a time limit.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace gradus::api {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        received_(std::move(other.received_)) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }

  /// False when the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// True when there is something to read, or the end, within `wait`.
  bool readable(std::chrono::milliseconds wait) {
    pollfd fd{socket_, POLLIN, 0};
    return !received_.empty() || ::poll(&fd, 1, static_cast<int>(wait.count())) > 0;
  }

  /// Nothing: the connection ended first, or nothing came for a long time.
  /// @param head_only for answers to HEAD and for 100
  std::optional<Answer> read_answer(bool head_only = false) {
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!receive()) return std::nullopt;
    }
    Answer answer;
    std::string_view head = std::string_view(received_).substr(0, end + 2);
    answer.status = std::atoi(std::string(head.substr(9, 3)).c_str());
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.empty()) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      const std::size_t colon = line.find(": ");
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      });
      answer.headers[name] = line.substr(colon + 2);
      head.remove_prefix(line.size() + 2);
    }
    received_.erase(0, end + 4);
    const std::string length = answer.header("content-length");
    const std::size_t size = head_only || length.empty() ? 0 : std::stoull(length);
    while (received_.size() < size) {
      if (!receive()) return std::nullopt;
    }
    answer.body = received_.substr(0, size);
    received_.erase(0, size);
    return answer;
  }

  /// True when the server closes the connection without another byte.
  bool ends() { return received_.empty() && !receive() && !silent_; }

 private:
  bool receive() {
    constexpr std::chrono::milliseconds kLong{20'000};
    silent_ = !readable_now(kLong);
    if (silent_) return false;
    char bytes[64 << 10];
    const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  bool readable_now(std::chrono::milliseconds wait) {
    pollfd fd{socket_, POLLIN, 0};
    return ::poll(&fd, 1, static_cast<int>(wait.count())) > 0;
  }

  int socket_;
  bool connected_ = false;
  bool silent_ = false;  // the last wait brought nothing
  std::string received_;
};

}  // namespace gradus::api
