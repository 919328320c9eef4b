#include "worker/file_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace gradus::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kMostEntries = 10'000;
// Other models, configuration and texts; what providers keep for the next start.
constexpr std::string_view kNoWeights[] = {
    ".onnx", ".yaml", ".pbtxt",  ".json",    ".txt",    ".csv",  ".md",       ".py",
    ".log",  ".swp",  ".engine", ".profile", ".timing", ".blob", ".cl_cache", ".mxr"};

Result<std::optional<FileIdentity>> identity_of(const fs::path& file) {
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

bool may_hold_weights(const fs::directory_entry& entry) {
  const std::string kind = entry.path().extension().string();
  std::error_code ignored;
  return !entry.path().filename().string().starts_with('.') &&
         std::ranges::find(kNoWeights, kind) == std::end(kNoWeights) &&
         entry.is_regular_file(ignored);
}

}  // namespace

Result<std::vector<SeenFile>> files_of(const fs::path& model) {
  auto identity = identity_of(model);
  if (!identity) return tl::unexpected(std::move(identity.error()));
  std::vector<SeenFile> files{{model, *identity}};
  std::error_code error;
  fs::recursive_directory_iterator entry(model.parent_path(), error);
  const fs::recursive_directory_iterator end;
  for (int i = 0; i < kMostEntries && !error && entry != end; ++i, entry.increment(error)) {
    if (entry->path() == model || !may_hold_weights(*entry)) continue;
    identity = identity_of(entry->path());
    if (!identity) return tl::unexpected(std::move(identity.error()));
    if (*identity) files.push_back({entry->path(), *identity});
  }
  return files;
}

Result<void> check_unchanged(const std::vector<SeenFile>& files) {
  for (const SeenFile& file : files) {
    const auto now = identity_of(file.path);
    if (!now) return tl::unexpected(now.error());
    if (*now == file.identity) continue;
    return fail(Code::kNotFound,
                file.path.string() +
                    (*now ? " has changed since it was loaded: load the model anew, or restart the "
                            "server, to take it as it is now"
                          : " is gone since it was loaded: once it is there, load the model anew "
                            "or restart the server"));
  }
  return {};
}

}  // namespace gradus::worker
