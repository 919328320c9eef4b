// `gradus drill`: a scripted game day. It sends requests to one model at a fixed rate, breaks its
// level 0 in one way after another, and reports what the clients saw (docs/drill.md). It serves the
// model itself, or drills a server that runs already.
#pragma once
#include <chrono>
#include <filesystem>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

namespace gradus::tools {

struct DrillOptions {
  using Seconds = std::chrono::duration<double>;

  std::string model;
  std::string faults;  // comma-separated names; empty: all that can be done
  int trials = 1;      // of each fault, >= 1
  double rate = 0;     // requests a second; 0: 25 % of what the CPU level was measured to take
  std::filesystem::path json;  // where the report goes as JSON too; empty: nowhere

  // These take the place of the model's policy; of a server that runs they only say what it is.
  std::optional<Seconds> hold;
  std::optional<Seconds> max_hold;
  std::optional<Seconds> cooldown;
  std::optional<Seconds> breaker;

  // A server of its own; empty: there is `url`.
  std::filesystem::path model_repository;
  std::string provider = "FaultExecutionProvider";  // of level 0
  std::optional<Seconds> restart_backoff;

  // A server that runs: http://127.0.0.1:8000.
  std::string url;
  std::filesystem::path control;  // of its level 0's fault provider; empty: signals alone
  bool yes = false;               // break it without asking
  bool terminal = false;          // there is somebody to ask
};

/// Blocks for as long as the drill takes; starts and ends servers of its own, unless there is a
/// URL. Call once, from the main thread.
/// @param in where the question before a running server is broken gets its answer
/// @param out the report; @param err what it is doing, and what went wrong
/// @return the exit code: 0 all requests were answered well, the ladder did what it promises and
/// level 0 came back each time, 1 not so, or the question was answered with no, 2 a faulty command
/// line, model or repository
int drill(const DrillOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace gradus::tools
