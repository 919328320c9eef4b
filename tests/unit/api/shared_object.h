// A POSIX shared memory object as a client has it, until the test ends.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gradus::api {

class SharedObject {
 public:
  explicit SharedObject(std::size_t size) : fd_(::shm_open(key.c_str(), O_RDWR | O_CREAT, 0600)) {
    resize(size);
  }
  ~SharedObject() {
    ::close(fd_);
    ::shm_unlink(key.c_str());
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  void resize(std::size_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) std::abort();
  }
  void write(std::string_view bytes, std::size_t at = 0) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)) != size) std::abort();
  }
  std::string read(std::size_t size, std::size_t at = 0) const {
    std::string bytes(size, '\0');
    const ssize_t got = ::pread(fd_, bytes.data(), size, static_cast<off_t>(at));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

  const std::string key =
      "/gradus-test-" + std::to_string(::getpid()) + "-" + std::to_string(next_++);

 private:
  static inline int next_ = 0;
  const int fd_;
};

}  // namespace gradus::api
