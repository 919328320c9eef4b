// What the test binary does when it is started as a child: `worker PID` hosts the backends below,
// `rogue-MODE PID` misbehaves, `parent PID` starts a worker and waits, `wait` waits. See child.cc.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "worker/worker.h"

namespace gradus::worker {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline constexpr const char* kTestVersion = "test";

/// `failing` fails each run but one that says kBlame; `refusing` blames each; `double` doubles its
/// one input `x`; what the first value says first:
enum Command {
  kCrash = -1,       // SIGSEGV
  kExit = -2,        // exit code 7
  kSleep = -3,       // for ever
  kSpin = -4,        // for ever
  kSticky = -5,      // fails as after an illegal memory access
  kNoMemory = -6,    // fails for want of memory
  kWriteInput = -7,  // writes to what it may only read
  kMeet = -8,        // answers when as many runs of it are there as the second value says
  kBlame = -9,       // blames the request
  kUnlock = -10,     // asks for leave to write to its input; fails if it gets it
  kHoard = -11,      // takes memory that is long to give back, then waits
  kSlow = -12,       // answers after 1.2 s
  kStart = -13,      // starts a process that lives on
  kBreak = -14,      // fails, as every run in its process does from then on
};

inline runtime::LoadSpec fake(const std::string& name = "double") {
  runtime::LoadSpec spec;
  spec.file = "fake:" + name;
  return spec;
}

inline Worker::Options child(const std::string& mode = "worker") {
  Worker::Options options;
  options.greeting.version = kTestVersion;
  options.greeting.device = "test:0";
  options.greeting.log_level = log::Severity::kError;
  options.arguments = {mode};
  return options;
}

inline TensorView view_of(const std::vector<float>& values) {
  return {
      DType::kFp32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}

inline std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// Stops a process and waits until it has stopped: the signal takes effect some time after kill().
inline void stop_process(pid_t pid) {
  kill(pid, SIGSTOP);
  const TimePoint end = steady_clock().now() + std::chrono::seconds(30);
  for (std::string line; steady_clock().now() < end;) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/status");
    while (std::getline(in, line)) {
      if (line.starts_with("State:") && line.find('T') != std::string::npos) return;
    }
  }
  ADD_FAILURE() << pid << " does not stop";
}

}  // namespace gradus::worker
