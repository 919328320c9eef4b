#include "worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;

constexpr int kSocketFd = 3;

// By number: glibc 2.36 declares the functions for C alone.
int open_pidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

std::string how_it_died(bool exited, int status) {
  return (exited ? "exited with " : "was killed by signal ") + std::to_string(status);
}

// proc_pid_stat(5): the wait status of a process that has begun to end. A thread is marked so
// before the kernel closes its files, so a socket that closed by its end is never seen before the
// mark.
std::optional<std::string> how_it_ends(pid_t pid) {
  constexpr int kFlags = 9 - 2;  // fields are counted from the one after the name
  constexpr int kExitCode = 52 - 2;
  constexpr unsigned long kExiting = 0x4;  // the kernel's PF_EXITING
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  unsigned long flags = 0;
  int status = 0;
  std::string field;
  for (int i = 1; i <= kExitCode && fields >> field; ++i) {
    if (i == kFlags) flags = std::strtoul(field.c_str(), nullptr, 10);
    if (i == kExitCode) status = std::atoi(field.c_str());
  }
  if ((flags & kExiting) == 0) return std::nullopt;
  if (WIFSIGNALED(status)) return how_it_died(false, WTERMSIG(status));
  return how_it_died(true, WEXITSTATUS(status));
}

}  // namespace

Result<std::unique_ptr<Process>> Process::spawn(const std::string& executable,
                                                const std::vector<std::string>& arguments,
                                                Socket child_end, Kill kill) {
  // By this process's name, so that whoever looks at `ps` knows whose it is.
  std::vector<std::string> words{program_invocation_name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(std::to_string(getpid()));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, child_end.fd(), kSocketFd);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, kSocketFd + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, executable.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return fail(Code::kUnavailable, "cannot start " + executable + ": " + std::strerror(error));
  }
  Fd pidfd(open_pidfd(pid));
  if (!pidfd) {
    const int why = errno;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return fail(Code::kUnavailable, std::string("no pidfd: ") + std::strerror(why));
  }
  return std::unique_ptr<Process>(new Process(pid, std::move(pidfd), std::move(kill)));
}

Process::~Process() {
  kill();
  wait_dead(1s);
}

void Process::sigkill(int pidfd) { syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

std::optional<std::string> Process::death() {
  const MutexLock lock(mutex_);
  if (death_) return death_;
  siginfo_t info{};
  const auto id = static_cast<id_t>(pidfd_.get());
  if (waitid(P_PIDFD, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    death_ = std::string("is gone: ") + std::strerror(errno);
  } else if (info.si_pid != 0) {
    death_ = how_it_died(info.si_code == CLD_EXITED, info.si_status);
    ::kill(-pid_, SIGKILL);  // what it started; before it is reaped no other can have that number
    waitid(P_PIDFD, id, &info, WEXITED);
  }
  return death_;
}

std::optional<std::string> Process::ending() {
  if (auto how = death()) return how;
  if (auto how = how_it_ends(pid_)) return how;
  return death();  // it may have been reaped just now
}

bool Process::wait_dead(Duration limit) {
  wait_readable({pidfd_.get()}, limit);
  return death().has_value();
}

std::uint32_t wait_readable(std::initializer_list<int> fds, Duration limit) {
  std::array<pollfd, 4> polled{};
  nfds_t count = 0;
  for (const int fd : fds) polled.at(count++) = {fd, POLLIN, 0};
  const TimePoint end = steady_clock().now() + limit;
  for (;;) {
    const Duration left = std::max(Duration::zero(), end - steady_clock().now());
    const timespec time{.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count(),
                        .tv_nsec = (left % 1s).count()};
    const int ready =
        ppoll(polled.data(), count, limit < Duration::zero() ? nullptr : &time, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    std::uint32_t bits = 0;
    for (nfds_t i = 0; i < count; ++i) {
      if (ready > 0 && polled[i].revents != 0) bits |= 1U << i;
    }
    return bits;
  }
}

}  // namespace gradus::worker
