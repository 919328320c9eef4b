#include "serving/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace gradus::serving {
namespace {

namespace fs = std::filesystem;

// And six characters: nobody calls a folder of his own so.
constexpr std::string_view kPrefix = "gradus-sent-model-";
constexpr std::size_t kNameSize = kPrefix.size() + 6;

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

// Not through a link; false: there is no such folder, or it cannot be opened.
worker::Fd open_folder(const fs::path& path) {
  return worker::Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct Held {
  fs::path path;
  worker::Fd fd;
};

// Between its making and its lock a folder looks left over: one that another process took for that
// is made again.
Result<Held> make_held() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return fail(Code::kUnavailable, error.message());
  for (int tries = 0; tries < 10; ++tries) {
    std::string path = (parent / kPrefix).string() + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return fail(Code::kUnavailable, std::strerror(errno));
    worker::Fd fd = open_folder(path);
    if (!fd && errno != ENOENT) {
      const int why = errno;
      rmdir(path.c_str());
      return fail(Code::kUnavailable, std::strerror(why));
    }
    if (!fd) continue;
    // Where a file system knows no locks, nobody else gets one either, and the folder stays.
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    if (fs::exists(path, error)) return Held{std::move(path), std::move(fd)};
  }
  return fail(Code::kUnavailable, "others remove it again and again");
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
  auto held = make_held();
  if (!held) {
    return fail(Code::kUnavailable, "no temporary folder for the files: " + held.error().message);
  }
  const std::shared_ptr<const TemporaryFolder> folder(
      new TemporaryFolder(std::move(held->path), std::move(held->fd)));
  {
    const MutexLock lock(living().mutex);
    living().paths.insert(folder->path());
  }
  for (const auto& [name, bytes] : files) {
    const fs::path path = folder->path() / name;
    std::error_code error;  // is seen when it is written
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      return fail(Code::kUnavailable,
                  "file '" + name + "' could not be written below " + folder->path().string());
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

void remove_left_over_folders() {
  std::error_code error;
  fs::directory_iterator entry(fs::temp_directory_path(error), error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix) || name.size() != kNameSize) continue;
    const worker::Fd fd = open_folder(path);
    struct stat seen {};
    if (!fd || fstat(fd.get(), &seen) != 0 || seen.st_uid != geteuid()) continue;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code failed;
    fs::remove_all(path, failed);
    log::write(failed ? log::Severity::kWarning : log::Severity::kInfo,
               failed ? "left over, and cannot be removed: " + failed.message()
                      : std::string("removed what a killed server left"),
               {{"folder", path.string()}});
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
