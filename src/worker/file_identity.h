// Whether a model's files are still those that they were: by what stat(2) says of them, not by what
// is in them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"

namespace gradus::worker {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970

  bool operator==(const FileIdentity&) const = default;
};

struct SeenFile {
  std::filesystem::path path;
  std::optional<FileIdentity> identity;  // of what the path leads to; nothing: no file is there
};

/// A model's file, then what lies below its folder and may hold its weights (ONNX: external data):
/// all but other models, texts and providers' caches, of some thousand files.
/// kUnavailable: it cannot be told.
Result<std::vector<SeenFile>> files_of(const std::filesystem::path& model);

/// kNotFound: one of them is another now, or is gone; kUnavailable: it cannot be told.
Result<void> check_unchanged(const std::vector<SeenFile>& files);

}  // namespace gradus::worker
