#include "worker/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace gradus::worker {
namespace {

constexpr std::size_t kGrain = 64 * 1024;
constexpr std::uint64_t kBlock = 512;  // what st_blocks counts in, stat(2)

#ifndef F_SEAL_FUTURE_WRITE
constexpr int F_SEAL_FUTURE_WRITE = 0x0010;
#endif

tl::unexpected<Error> no_memory(std::size_t bytes, int error) {
  return fail(Code::kUnavailable,
              "no shared memory of " + std::to_string(bytes) + " bytes: " + std::strerror(error));
}

}  // namespace

bool seal_for_readers(const Fd& fd) {
  return fcntl(fd.get(), F_ADD_SEALS,
               F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

// A quarter more than asked for, so that requests that grow little by little rarely need a new one.
std::size_t Segment::roomy(std::size_t bytes) {
  return (std::max(bytes + bytes / 4, std::size_t{1}) + kGrain - 1) / kGrain * kGrain;
}

Result<std::shared_ptr<Segment>> Segment::make(std::size_t bytes) {
  if (bytes > kMaxSegment) return no_memory(bytes, EFBIG);
  const std::size_t size = roomy(bytes);
  Fd fd(memfd_create("gradus", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Allocated here and now: a page that is missing later would be a SIGBUS.
  if (!fd || fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0) {
    return no_memory(size, errno);
  }
  void* const at =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (at == MAP_FAILED) return no_memory(size, errno);
  const std::span<std::byte> data(static_cast<std::byte*>(at), size);
  std::shared_ptr<Segment> made(new Segment(std::move(fd), data));
  if (!seal_for_readers(made->fd_)) return no_memory(size, errno);
  return made;
}

Result<std::shared_ptr<const Segment>> Segment::open(const Fd& fd, Pages pages, std::size_t most) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat about {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &about) != 0) {
    return fail(Code::kInternal, "what came as shared memory is none of fixed size");
  }
  const auto size = static_cast<std::uint64_t>(about.st_size);
  most = std::min<std::uint64_t>(most, kMaxSegment);
  if (size == 0 || size > most) {
    return fail(Code::kInternal, "shared memory of " + std::to_string(size) +
                                     " bytes came: at most " + std::to_string(most));
  }
  const auto there = static_cast<std::uint64_t>(about.st_blocks) * kBlock;
  if (pages == Pages::kAll && there < size) {
    return fail(Code::kInternal, "shared memory of " + std::to_string(size) +
                                     " bytes came, of which only " + std::to_string(there) +
                                     " are there");
  }
  const int flags = MAP_SHARED | (pages == Pages::kAll ? MAP_POPULATE : 0);
  void* const at = mmap(nullptr, size, PROT_READ, flags, fd.get(), 0);
  if (at == MAP_FAILED) return no_memory(size, errno);
  return std::shared_ptr<const Segment>(
      new Segment(Fd(), std::span<std::byte>(static_cast<std::byte*>(at), size)));
}

Segment::~Segment() { munmap(data_.data(), data_.size()); }

}  // namespace gradus::worker
