// Whether a file is still the one that it was: by what stat(2) says of it, not by what is in it.
#pragma once
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/result.h"

namespace gradus::worker {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970

  bool operator==(const FileIdentity&) const = default;
};

/// Of what the path leads to now, symbolic links followed; nothing: no file is there.
/// kUnavailable: it cannot be told.
inline Result<std::optional<FileIdentity>> identity_of(const std::filesystem::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) == 0) {
    return FileIdentity{
        .device = found.st_dev,
        .inode = found.st_ino,
        .bytes = found.st_size,
        .modified_ns = found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
  }
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  return fail(Code::kUnavailable, file.string() + ": " + std::strerror(errno));
}

}  // namespace gradus::worker
