#include "tools/drill_server.h"

#include <fcntl.h>
#include <signal.h>
#include <simdjson.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/drill_http.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
namespace dom = simdjson::dom;

constexpr Duration kStartLimit = 2min;  // a large model loads slowly
constexpr Duration kStatusLimit = 10s;
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

std::optional<std::int64_t> number(const dom::element& object, const char* key) {
  std::int64_t value = 0;
  if (object[key].get(value) != simdjson::SUCCESS) return {};
  return value;
}

std::string text(const dom::element& object, const char* key) {
  std::string_view value;
  if (object[key].get(value) != simdjson::SUCCESS) return {};
  return std::string(value);
}

void read_level(const dom::element& level, LadderView& view) {
  const bool ready = text(level, "state") == "ready";
  const int which = static_cast<int>(number(level, "level").value_or(-1));
  if (text(level, "state") == "loading") view.loading = true;
  if (ready) view.ready.push_back(which);
  if (which != 0) return;
  view.level_0_reason = text(level, "reason");
  dom::element worker;
  if (level["worker"].get(worker) != simdjson::SUCCESS || !worker.is_object()) return;
  if (const auto pid = number(worker, "pid")) view.worker = static_cast<pid_t>(*pid);
  view.level_0_whole =
      ready && text(level, "breaker") == "closed" && text(worker, "state") == "running";
}

}  // namespace

Result<LadderView> parse_ladder(const std::string& json) {
  dom::parser parser;
  dom::element root;
  dom::array levels;
  dom::array transitions;
  if (parser.parse(json).get(root) != simdjson::SUCCESS ||
      root["levels"].get(levels) != simdjson::SUCCESS ||
      root["transitions"].get(transitions) != simdjson::SUCCESS) {
    return fail(Code::kInternal, "no status of a ladder: " + json.substr(0, 200));
  }
  LadderView view;
  if (const auto current = number(root, "current_level")) view.current = static_cast<int>(*current);
  for (const dom::element level : levels) read_level(level, view);
  for (const dom::element move : transitions) {
    const auto from = number(move, "from");
    const auto to = number(move, "to");
    if (from && (!to || *to > *from)) ++view.transitions_down;
  }
  return view;
}

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

Result<LadderView> DrillServer::ladder() const {
  const auto answer =
      exchange(port_, http_request("GET", "/v2/models/" + model_ + "/ladder", "", ""),
               steady_clock().now() + kStatusLimit);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status != 200) return fail(Code::kUnavailable, answer->body);
  return parse_ladder(answer->body);
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
    reason = view->level_0_reason;
    if (!view->loading && std::ranges::find(view->ready, 0) == view->ready.end() &&
        !reason.empty()) {
      break;
    }
    std::this_thread::sleep_for(kLook);
  }
  return fail(Code::kUnavailable, "level 0 does not come up on the fault provider: " + reason);
}

}  // namespace gradus::tools
