#include "api/control/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gradus::api {
namespace {

constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostKey = 254;  // NAME_MAX, less the slash

tl::unexpected<Error> refuse(std::string text) { return fail(Code::kInvalid, std::move(text)); }

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 80;
  return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "…'" : "'");
}

bool is_printable(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// The object's name without its slash. Semaphores live in the same folder.
Result<std::string> object_of(std::string_view key) {
  const std::string_view name = key.starts_with('/') ? key.substr(1) : key;
  if (name.empty() || name.size() > kMostKey || name == "." || name == ".." ||
      name.starts_with("sem.") || name.find('/') != name.npos || !is_printable(name)) {
    return refuse("key " + quoted(key) +
                  ": expected the name of a shared memory object as shm_open takes it: one path "
                  "component of 1 to 254 bytes, with or without a slash before it");
  }
  return std::string(name);
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Moves all bytes, unless the file ends or fails before.
template <class Byte, class Call>
bool whole(std::span<Byte> bytes, std::uint64_t at, Call call) {
  while (!bytes.empty()) {
    const ssize_t moved = call(bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
    at += static_cast<std::uint64_t>(moved);
  }
  return true;
}

// Of a plain file, which a shared memory object is; nothing for others.
bool size_of(int fd, std::uint64_t& size) {
  struct stat about {};
  if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return false;
  size = static_cast<std::uint64_t>(about.st_size);
  return true;
}

bool fits(std::uint64_t at, std::uint64_t size, std::uint64_t whole) {
  return at <= whole && size <= whole - at;
}

}  // namespace

Region::~Region() { ::close(fd_); }

Result<void> Region::check_range(std::uint64_t at, std::uint64_t size) const {
  if (fits(at, size, byte_size)) return {};
  return refuse("shared memory region " + quoted(name) + " has " + std::to_string(byte_size) +
                " bytes; " + std::to_string(size) + " at offset " + std::to_string(at) +
                " are beyond it");
}

tl::unexpected<Error> Region::shrunk() const {
  return refuse("shared memory region " + quoted(name) + ": the object " + quoted(key) +
                " is shorter than when it was registered, or cannot be used any more");
}

Result<void> Region::read(std::uint64_t at, std::span<std::byte> to) const {
  if (auto inside = check_range(at, to.size()); !inside) return inside;
  const bool done = whole(to, offset + at, [this](std::byte* data, std::size_t size, off_t from) {
    return ::pread(fd_, data, size, from);
  });
  return done ? Result<void>() : shrunk();
}

Result<void> Region::write(std::uint64_t at, std::span<const std::byte> from) const {
  if (auto inside = check_range(at, from.size()); !inside) return inside;
  std::uint64_t size = 0;
  if (!size_of(fd_, size) || !fits(offset + at, from.size(), size)) return shrunk();
  const bool done =
      whole(from, offset + at, [this](const std::byte* data, std::size_t count, off_t to) {
        return ::pwrite(fd_, data, count, to);
      });
  return done ? Result<void>() : shrunk();
}

Result<bool> SharedMemory::add(Asked asked) {
  if (asked.name.empty() || asked.name.size() > kMostName || !is_printable(asked.name)) {
    return refuse("a shared memory region's name has 1 to " + std::to_string(kMostName) +
                  " printable bytes");
  }
  const auto object = object_of(asked.key);
  if (!object) return tl::unexpected(object.error());
  const std::string label = "shared memory region " + quoted(asked.name) + ": ";
  if (asked.byte_size == 0) return refuse(label + "byte_size is 0; expected at least 1");
  OpenFile file(::shm_open(("/" + *object).c_str(), O_RDWR, 0));  // follows no link
  if (file.get() < 0) {
    return refuse(label + "object " + quoted(asked.key) +
                  " cannot be opened: " + std::strerror(errno));
  }
  std::uint64_t size = 0;
  if (!size_of(file.get(), size)) {
    return refuse(label + "object " + quoted(asked.key) + " is no shared memory");
  }
  if (!fits(asked.offset, asked.byte_size, size)) {
    return refuse(label + "object " + quoted(asked.key) + " has " + std::to_string(size) +
                  " bytes; " + std::to_string(asked.byte_size) + " at offset " +
                  std::to_string(asked.offset) + " are beyond it");
  }
  const MutexLock lock(mutex_);
  if (regions_.contains(asked.name)) return false;
  if (regions_.size() >= most_regions_) {
    return refuse(label + "there are " + std::to_string(most_regions_) +
                  " regions already; unregister those that are not used");
  }
  auto region = std::make_shared<const Region>(asked.name, std::move(asked.key), asked.offset,
                                               asked.byte_size, file.get());
  file.release();
  regions_.emplace(std::move(asked.name), std::move(region));
  return true;
}

std::shared_ptr<const Region> SharedMemory::find(std::string_view name) const {
  const MutexLock lock(mutex_);
  const auto found = regions_.find(name);
  return found != regions_.end() ? found->second : nullptr;
}

std::vector<std::shared_ptr<const Region>> SharedMemory::all() const {
  std::vector<std::shared_ptr<const Region>> found;
  const MutexLock lock(mutex_);
  for (const auto& [name, region] : regions_) found.push_back(region);
  return found;
}

void SharedMemory::remove(std::string_view name) {
  std::shared_ptr<const Region> last;  // closed without the lock
  const MutexLock lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return;
  last = std::move(found->second);
  regions_.erase(found);
}

void SharedMemory::remove_all() {
  decltype(regions_) last;
  const MutexLock lock(mutex_);
  last.swap(regions_);
}

}  // namespace gradus::api
