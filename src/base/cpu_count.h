// How many CPUs this process may really use: the least of its affinity mask and the CPU quota of
// its control group (cpu.max in v2, cpu.cfs_quota_us in v1), rounded up, never under 1.
#pragma once
#include <filesystem>

namespace gradus {

/// @param cgroup_root where the control group file system is mounted
/// @param self_cgroup the file that names this process's groups (`/proc/self/cgroup`)
/// Reads the process's own group and each of its parents: the tightest quota holds.
int usable_cpus(const std::filesystem::path& cgroup_root = "/sys/fs/cgroup",
                const std::filesystem::path& self_cgroup = "/proc/self/cgroup");

}  // namespace gradus
