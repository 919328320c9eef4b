// A worker for tests to send runs to, and what can be seen of it from outside.
#pragma once
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "child.h"

namespace gradus::worker {

inline constexpr Duration kLong = std::chrono::seconds(30);
inline const std::vector<std::size_t> kFirst = {0};

/// Waits for what another process brings about; false: not within `limit`.
inline bool within(Duration limit, const std::function<bool()>& done) {
  const TimePoint end = steady_clock().now() + limit;
  while (!done()) {
    if (steady_clock().now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A worker with a session of `fake()`, or of another.
struct Started {
  explicit Started(const Worker::Options& options = child(), const std::string& name = "double")
      : worker(Worker::start(options).value()),
        session(worker->load(fake(name), kLong).value().id) {}

  Result<std::vector<Tensor>> run(const std::vector<float>& values, Duration limit = kLong) {
    return worker->run(session, std::vector{view_of(values)}, kFirst, limit);
  }
  /// A run whose input lies in a buffer, from `offset` on.
  Result<std::vector<Tensor>> run_in(const PoolBuffer& buffer, const std::vector<float>& values,
                                     std::size_t offset = 0, Duration limit = kLong) {
    const auto bytes = std::as_bytes(std::span(values));
    std::memcpy(buffer.data + offset, bytes.data(), bytes.size());
    const TensorView view{DType::kFp32,
                          {static_cast<std::int64_t>(values.size())},
                          std::span(buffer.data + offset, bytes.size())};
    return worker->run(session, std::vector{view}, kFirst, limit);
  }
  /// How many memfds of that name it has mapped.
  std::size_t maps(const std::string& name) const {
    std::ifstream in("/proc/" + std::to_string(worker->pid()) + "/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) {
      count += line.find("memfd:" + name + " ") != std::string::npos;
    }
    return count;
  }
  /// How many it has descriptors of.
  std::size_t opens(const std::string& name) const {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(worker->pid()) + "/fd", error)) {
      const auto target = std::filesystem::read_symlink(entry.path(), error).string();
      count += target.find("memfd:" + name + " ") != std::string::npos;
    }
    return count;
  }
  std::string status_line(const std::string& key) const {
    std::ifstream in("/proc/" + std::to_string(worker->pid()) + "/status");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(key + ":")) return line;
    }
    return "";
  }

  std::shared_ptr<Worker> worker;
  std::uint64_t session;
};

}  // namespace gradus::worker
