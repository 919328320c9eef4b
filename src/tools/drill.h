// `gradus drill`: a scripted game day. It serves one model with level 0 on the fault provider,
// sends requests at a fixed rate, breaks level 0 in one way after another, and reports what the
// clients saw (docs/drill.md).
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace gradus::tools {

struct DrillOptions {
  using Seconds = std::chrono::duration<double>;

  std::filesystem::path model_repository;
  std::string model;
  std::string faults;  // comma-separated names; empty: all
  int trials = 1;      // of each fault, >= 1
  double rate = 0;     // requests a second; 0: 25 % of what the CPU level was measured to take
  // The rest takes the place of the model's policy and the server's back-off, where given.
  std::optional<Seconds> hold;
  std::optional<Seconds> max_hold;
  std::optional<Seconds> cooldown;
  std::optional<Seconds> breaker;
  std::optional<Seconds> restart_backoff;
  std::filesystem::path json;  // where the report goes as JSON too; empty: nowhere
};

/// Blocks for as long as the drill takes; starts and ends servers of its own. Call once, from the
/// main thread.
/// @param out the report; @param err what it is doing, and what went wrong
/// @return the exit code: 0 all requests were answered well and level 0 came back each time, 1 not,
/// 2 a faulty command line, model or repository
int drill(const DrillOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::tools
