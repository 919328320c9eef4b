// How many connections the process's limit of open files leaves room for. Room stays for model
// files, the runtime's devices and worker processes: a quarter of the limit, 512 at most.
#pragma once
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

namespace gradus {

inline std::size_t room_for_connections() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto files = static_cast<std::size_t>(limit.rlim_cur);
  return files - std::min<std::size_t>(files / 4, 512);
}

/// One gRPC connection carries many requests, so it gets the smaller part.
inline std::size_t room_for_grpc() { return std::max<std::size_t>(room_for_connections() / 4, 1); }
inline std::size_t room_for_http() { return room_for_connections() - room_for_grpc(); }

/// Regions of clients' shared memory hold a file each: half of what is kept.
inline std::size_t room_for_regions() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::min<std::size_t>(static_cast<std::size_t>(limit.rlim_cur) / 8, 256);
}

}  // namespace gradus
