#include "serving/temporary_folder.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "base/mutex.h"

namespace gradus::serving {
namespace {

namespace fs = std::filesystem;

struct Living {
  Mutex mutex;
  std::set<fs::path> paths GUARDED_BY(mutex);
};

Living& living() {
  static Living all;
  return all;
}

bool stays_below(const fs::path& path) {
  return !path.empty() && path.native().find('\0') == path.native().npos && path.is_relative() &&
         path.has_filename() && std::ranges::none_of(path, [](const fs::path& part) {
           return part == ".." || part == ".";
         });
}

}  // namespace

Result<std::shared_ptr<const TemporaryFolder>> TemporaryFolder::make(
    const std::map<std::string, std::string>& files) {
  for (const auto& [name, bytes] : files) {
    if (!stays_below(name)) {
      return fail(
          Code::kInvalid,
          "file '" + name + "': must be a path below the model's folder, like 1/model.onnx");
    }
  }
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "gradus-model-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr) {
    return fail(Code::kUnavailable, "no temporary folder for the files: " +
                                        (error ? error.message() : std::strerror(errno)));
  }
  const std::shared_ptr<const TemporaryFolder> folder(new TemporaryFolder(pattern));
  {
    const MutexLock lock(living().mutex);
    living().paths.insert(folder->path());
  }
  for (const auto& [name, bytes] : files) {
    const fs::path path = folder->path() / name;
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      return fail(Code::kUnavailable, "file '" + name + "' could not be written below " + pattern);
    }
  }
  return folder;
}

void remove_temporary_folders() {
  const MutexLock lock(living().mutex);
  for (const fs::path& path : std::exchange(living().paths, {})) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
}

TemporaryFolder::~TemporaryFolder() {
  {
    const MutexLock lock(living().mutex);
    living().paths.erase(path_);
  }
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace gradus::serving
