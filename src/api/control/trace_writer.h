// Trace files: each is a JSON array from its first byte on, whatever moment it is read at. They are
// written by one thread; whoever traces never waits, and is dropped when too much waits.
//
// The operator names one file. Clients may name others, but only in its folder, and only ones that
// are not there yet: no file that this server has not made is ever written to or truncated.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "serving/run_lane.h"

namespace gradus::api {

class TraceWriter {
 public:
  static constexpr std::size_t kMostWaiting = 1024;  // traces; more are dropped
  static constexpr std::size_t kMostFiles = 32;      // named by clients

  /// That open() could make it; one that is there stays as it is, an empty one may be there now.
  /// @return kInvalid: it could not
  static Result<void> check(const std::string& path);

  /// Makes the operator's file anew, also where an older one lies.
  /// @return kInvalid: it cannot be made
  static Result<std::unique_ptr<TraceWriter>> open(std::string path);

  /// What waits is written.
  ~TraceWriter();

  const std::string& operators_file() const { return path_; }

  /// The path of a file that a client names, which is made now unless this server made it before.
  /// @param name a plain name, or the path that this returned
  /// @return kInvalid: a name that cannot be, a file that is there already, or one too many
  Result<std::string> file_of_client(std::string_view name);

  /// Appends to the file's array. Any thread.
  /// @param path one of the above
  /// @param entries JSON objects, separated by commas
  /// @param log_frequency so many traces a file, `path.0`, `path.1` and so on; 0: all in `path`
  void write(const std::string& path, std::string entries, std::uint32_t log_frequency);

  /// Waits until what was handed over before is written, or the time is over.
  void flush(Duration limit);

  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  // An open file; none: fd is -1.
  struct Array {
    Array() = default;
    ~Array();
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    int fd = -1;
    std::uint64_t end = 0;  // where the next trace goes
    std::uint64_t traces = 0;
  };
  // Of the writing thread, once it is made.
  struct File {
    bool replace = false;  // parts of it may take the place of older ones
    Array whole;
    Array part;               // `path.N`, the last
    std::uint32_t parts = 0;  // made so far
  };

  explicit TraceWriter(std::string path) : path_(std::move(path)) {}
  Result<void> make(const std::string& path, bool replace);
  static bool begin(const std::string& path, bool replace, Array& array);
  void append(const std::string& path, const std::string& entries, std::uint32_t log_frequency);
  void fault(const std::string& what);

  const std::string path_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> told_{false};  // of the first fault
  Mutex mutex_;
  std::map<std::string, File> files_ GUARDED_BY(mutex_);
  serving::RunLane lane_{"trace", 1, kMostWaiting};  // last: its jobs use the rest
};

}  // namespace gradus::api
