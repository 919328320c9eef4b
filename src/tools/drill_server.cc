#include "tools/drill_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kStartLimit = 2min;  // a large model loads slowly
constexpr auto kLook = 10ms;

std::string log_of(const Scratch& scratch) {
  std::ifstream file(scratch.log());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The port in `listening on http://127.0.0.1:PORT`.
std::optional<std::uint16_t> port_in(const std::string& log) {
  constexpr std::string_view kBefore = "listening on http://127.0.0.1:";
  const std::size_t at = log.find(kBefore);
  if (at == std::string::npos || log.find('\n', at) == std::string::npos) return {};
  std::uint16_t port = 0;
  const char* const begin = log.data() + at + kBefore.size();
  std::from_chars(begin, log.data() + log.size(), port);
  return port == 0 ? std::nullopt : std::optional(port);
}

// In the child: becomes the server, and ends with the drill.
[[noreturn]] void become_server(const Scratch& scratch, const std::string& binary, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int log = ::open(scratch.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::setenv("GRADUS_FAULT_CONTROL", scratch.control().c_str(), 1);
  ::unsetenv("ORT_PROVIDERS");  // it might leave the fault provider out
  ::execl(binary.c_str(), "gradus", "serve", "--config", scratch.server_config().c_str(), nullptr);
  ::_exit(127);
}

}  // namespace

Result<DrillServer> DrillServer::start(const Scratch& scratch, const std::string& model) {
  std::error_code error;
  std::filesystem::remove(scratch.log(), error);  // it names the port of the server before
  const std::string binary = own_binary().string();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kInternal, "no process can be started");
  if (pid == 0) become_server(scratch, binary, parent);
  DrillServer server(pid, model);
  const TimePoint deadline = steady_clock().now() + kStartLimit;
  auto up = server.wait_listening(scratch, deadline);
  if (up) up = server.wait_level_0(deadline);
  if (!up) return fail(up.error().code, up.error().message + "\n" + log_of(scratch));
  return server;
}

DrillServer::DrillServer(DrillServer&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), model_(std::move(other.model_)), port_(other.port_) {}

DrillServer::~DrillServer() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<void> DrillServer::wait_listening(const Scratch& scratch, TimePoint deadline) {
  while (steady_clock().now() < deadline) {
    if (const auto port = port_in(log_of(scratch))) {
      port_ = *port;
      return {};
    }
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return fail(Code::kUnavailable, "the server ended before it listened:");
    }
    std::this_thread::sleep_for(kLook);
  }
  return fail(Code::kUnavailable, "the server does not listen:");
}

Result<void> DrillServer::wait_level_0(TimePoint deadline) {
  std::string reason;
  while (steady_clock().now() < deadline) {
    const auto view = ladder();
    if (!view) return tl::unexpected(view.error());
    if (!view->loading && view->current == 0 && view->level_0_whole) return {};
    reason = view->reason;
    // A busy machine may cost it its first worker; the next one may do.
    const bool in_vain = view->fault_class != "died" && view->fault_class != "hung";
    if (!view->loading && std::ranges::find(view->ready, 0) == view->ready.end() &&
        !reason.empty() && in_vain) {
      break;
    }
    std::this_thread::sleep_for(kLook);
  }
  return fail(Code::kUnavailable, "level 0 does not come up: " + reason);
}

}  // namespace gradus::tools
