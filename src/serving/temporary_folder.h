// A folder that goes, with all that is in it, when its owner does.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace gradus::serving {

/// All that there are now; for a process that ends without its destructors. Any thread.
void remove_temporary_folders();

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
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path path_;
};

}  // namespace gradus::serving
