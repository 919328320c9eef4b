#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>

namespace gradus {
namespace {

namespace fs = std::filesystem;

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::optional<double> quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  try {
    return std::stod(quota) / period;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<double> quota_v1(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// `hierarchy:controllers:path`; v2 has the single line `0::path`.
void take_tightest(const fs::path& base, const std::string& path, auto read,
                   std::optional<double>& best) {
  fs::path group = base / fs::path(path).relative_path();
  for (;;) {
    if (const auto quota = read(group)) best = std::min(best.value_or(*quota), *quota);
    if (group == base || !group.has_relative_path() || group.parent_path() == group) break;
    group = group.parent_path();
    if (group.native().size() < base.native().size()) break;
  }
}

}  // namespace

int usable_cpus(const fs::path& cgroup_root, const fs::path& self_cgroup) {
  std::optional<double> quota;
  std::ifstream groups(self_cgroup);
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      take_tightest(cgroup_root, path, quota_v2, quota);
      // In a container the own group is mounted as the root, whatever its path outside.
      take_tightest(cgroup_root, "", quota_v2, quota);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      for (const char* name : {"cpu", "cpu,cpuacct"}) {
        take_tightest(cgroup_root / name, path, quota_v1, quota);
        take_tightest(cgroup_root / name, "", quota_v1, quota);
      }
    }
  }
  int cpus = affinity_cpus();
  if (quota) cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(*quota))));
  return cpus;
}

}  // namespace gradus
