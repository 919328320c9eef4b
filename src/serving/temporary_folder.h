// A folder that goes, with all that is in it, when its owner does.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "worker/fd.h"

namespace gradus::serving {

/// All that there are now; for a process that ends without its destructors. Any thread.
void remove_temporary_folders();

/// Those of this user that no process holds: one that was killed left them.
void remove_left_over_folders();

class TemporaryFolder {
 public:
  /// A new folder that nobody else may read, holding `files`: path below it -> bytes.
  /// @return kInvalid: a path leads out of it, or is none; kUnavailable: it could not be written
  static Result<std::shared_ptr<const TemporaryFolder>> make(
      const std::map<std::string, std::string>& files);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder(std::filesystem::path path, worker::Fd held)
      : path_(std::move(path)), held_(std::move(held)) {}

  const std::filesystem::path path_;
  const worker::Fd held_;  // locked, so that other processes see that it is in use
};

}  // namespace gradus::serving
