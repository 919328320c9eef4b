// A child process that is always reaped, and whose death can be waited for like any event.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "worker/socket.h"

namespace gradus::worker {

class Process {
 public:
  /// Ends the process of a pidfd. Tests give another than sigkill to play one that does not die.
  using Kill = std::function<void(int pidfd)>;
  static void sigkill(int pidfd);

  /// `executable arguments... PID`, PID being this process's, with `child_end` as descriptor 3 and
  /// no other descriptor but /dev/null as input and our standard error twice; in a process group of
  /// its own, so that a terminal's signals are the server's matter, and that what it starts ends
  /// with it.
  ///
  /// Call it from a thread that lives as long as the child should: the kernel's parent-death signal
  /// (prctl(2), PR_SET_PDEATHSIG) comes when the thread ends that made the child.
  static Result<std::unique_ptr<Process>> spawn(const std::string& executable,
                                                const std::vector<std::string>& arguments,
                                                Socket child_end, Kill kill = sigkill);
  /// Kills it if it lives and reaps it; one that does not die within a second is left to init.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int death_fd() const { return pidfd_.get(); }  // readable once it is dead
  void kill() { kill_(pidfd_.get()); }           // a dead one is left in peace
  /// `killed by signal 9`, `exited with 3`; nothing while it lives. Reaps. Any thread.
  std::optional<std::string> death();
  /// As death(), and also once nothing can stop it from dying, which may be long before it is dead:
  /// its memory and its devices have to be given back. Does not reap. Any thread.
  std::optional<std::string> ending();
  /// Waits for its death. False: it lives still.
  bool wait_dead(Duration limit);

 private:
  Process(pid_t pid, Fd pidfd, Kill kill)
      : pid_(pid), pidfd_(std::move(pidfd)), kill_(std::move(kill)) {}

  const pid_t pid_;
  const Fd pidfd_;
  const Kill kill_;
  Mutex mutex_;
  std::optional<std::string> death_ GUARDED_BY(mutex_);
};

/// poll(2) for input, hang-up or error. @param limit negative: none
/// @return bit i is set when fds[i] is ready; 0 when the time is over
std::uint32_t wait_readable(std::initializer_list<int> fds, Duration limit);

}  // namespace gradus::worker
