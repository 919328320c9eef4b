#include "tools/signals.h"

#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace gradus::tools {
namespace {

sigset_t termination_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t set = termination_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void TerminationSignals::wait() const {
  const sigset_t set = termination_signals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
}

bool TerminationSignals::wait_for(std::chrono::milliseconds time) const {
  const sigset_t set = termination_signals();
  const timespec limit{time.count() / 1000, (time.count() % 1000) * 1'000'000};
  return sigtimedwait(&set, nullptr, &limit) > 0;
}

}  // namespace gradus::tools
