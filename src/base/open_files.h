// How many connections the process's limit of open files leaves room for. Room stays for model
// files, the runtime's devices and worker processes: a quarter of the limit, 512 at most.
#pragma once
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

namespace gradus {

inline std::size_t limit_of_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(limit.rlim_cur);
}

/// With fewer a server cannot start, or has none left for clients and workers: an HTTP thread, of
/// which each CPU has one, holds three.
inline std::size_t fewest_files(int cpus) { return 64 + 3 * static_cast<std::size_t>(cpus); }

inline std::size_t room_for_connections() {
  const std::size_t files = limit_of_files();
  return files - std::min<std::size_t>(files / 4, 512);
}

/// One gRPC connection carries many requests, so it gets the smaller part.
inline std::size_t room_for_grpc() { return std::max<std::size_t>(room_for_connections() / 4, 1); }
inline std::size_t room_for_http() { return room_for_connections() - room_for_grpc(); }

/// Regions of clients' shared memory hold a file each: half of what is kept.
inline std::size_t room_for_regions() { return std::min<std::size_t>(limit_of_files() / 8, 256); }

}  // namespace gradus
