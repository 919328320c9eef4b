#include "base/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CpuCount : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("gradus_cgroup_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int count(const std::string& self) {
    write("self", self);
    return usable_cpus(root_, root_ / "self");
  }
  static int affinity() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
  }

  fs::path root_;
};

TEST_F(CpuCount, WithoutAQuotaItIsTheAffinity) {
  write("cpu.max", "max 100000");
  EXPECT_EQ(count("0::/\n"), affinity());
}

TEST_F(CpuCount, TakesTheQuotaOfVersion2RoundedUp) {
  write("app/cpu.max", "50000 100000");
  EXPECT_EQ(count("0::/app\n"), 1);
}

TEST_F(CpuCount, TakesTheTightestQuotaOfTheParents) {
  write("slice/cpu.max", "90000 100000");
  write("slice/app/cpu.max", "max 100000");
  EXPECT_EQ(count("0::/slice/app\n"), 1);
}

TEST_F(CpuCount, TakesTheQuotaOfVersion1) {
  write("cpu/app/cpu.cfs_quota_us", "100000");
  write("cpu/app/cpu.cfs_period_us", "100000");
  EXPECT_EQ(count("4:cpu,cpuacct:/app\n1:name=systemd:/\n"), 1);
}

TEST_F(CpuCount, ReadsTheMountedRootWhenTheOwnGroupIsNotVisible) {
  write("cpu.max", "100000 100000");
  EXPECT_EQ(count("0::/docker/0123\n"), 1);
}

TEST_F(CpuCount, AQuotaAboveTheAffinityChangesNothing) {
  write("cpu.max", "99900000 100000");
  EXPECT_EQ(count("0::/\n"), affinity());
}

TEST_F(CpuCount, FollowsTheAffinityMask) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(count("0::/\n"), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST_F(CpuCount, UnreadableFilesMeanNoQuota) {
  write("cpu.max", "rubbish");
  EXPECT_EQ(count("0::/\n"), affinity());
  EXPECT_EQ(usable_cpus(root_ / "none", root_ / "none"), affinity());
}

}  // namespace
}  // namespace gradus
