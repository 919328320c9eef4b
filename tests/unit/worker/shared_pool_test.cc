#include "worker/shared_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "worker/fd.h"

namespace gradus::worker {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
  }
  return 0;
}

// Shared or not, a pool gives the same memory.
class SharedPoolKinds : public testing::TestWithParam<bool> {};

TEST_P(SharedPoolKinds, UsesALargeBufferAgain) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  PoolBuffer first = pool.acquire(600'000);
  ASSERT_TRUE(first.owner);
  EXPECT_GE(first.capacity, 600'000u);
  std::memset(first.data, 1, 600'000);
  std::byte* const where = first.data;
  first.owner.reset();
  EXPECT_EQ(pool.kept_bytes(), 600'000u);
  EXPECT_EQ(pool.acquire(700'000).data, where);
}

TEST_P(SharedPoolKinds, NeverHandsOutABufferTwice) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  const PoolBuffer first = pool.acquire(600'000);
  const PoolBuffer second = pool.acquire(600'000);
  EXPECT_NE(first.data, second.data);
}

TEST_P(SharedPoolKinds, AlignsEveryBuffer) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  for (const std::size_t size : {1, 100, 32'000, 70'000, 1'000'000}) {
    const PoolBuffer buffer = pool.acquire(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0u) << size;
    std::memset(buffer.data, 1, size);
  }
}

TEST_P(SharedPoolKinds, AnAnnouncedSizeCostsNoMemory) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  const std::size_t before = resident_kib();
  const PoolBuffer buffer = pool.acquire(1024 * kMiB);
  ASSERT_TRUE(buffer.owner);
  buffer.data[0] = std::byte{1};
  EXPECT_LT(resident_kib(), before + 8 * 1024);
}

TEST_P(SharedPoolKinds, RefusesWhatNoSystemHas) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  EXPECT_FALSE(pool.acquire(std::size_t{1} << 50).owner);
  EXPECT_FALSE(pool.acquire(std::size_t{1} << 47).owner);
}

TEST_P(SharedPoolKinds, KeepsNoMoreThanItIsTold) {
  SharedPool pool({.keep_bytes = kMiB, .shared = GetParam()});
  PoolBuffer first = pool.acquire(600'000);
  PoolBuffer second = pool.acquire(600'000);
  first.owner.reset();
  second.owner.reset();
  EXPECT_EQ(pool.kept_bytes(), 600'000u);
}

TEST_P(SharedPoolKinds, TrimsWhatNobodyNeededSinceTheLastTrim) {
  SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
  PoolBuffer first = pool.acquire(600'000);
  PoolBuffer second = pool.acquire(600'000);
  first.owner.reset();
  second.owner.reset();
  pool.trim();  // both were in use since the start
  EXPECT_EQ(pool.kept_bytes(), 1'200'000u);
  pool.acquire(600'000);
  pool.trim();
  EXPECT_EQ(pool.kept_bytes(), 600'000u);
  pool.trim();
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

TEST_P(SharedPoolKinds, ABufferMayOutliveIt) {
  PoolBuffer buffer;
  {
    SharedPool pool({.keep_bytes = 64 * kMiB, .shared = GetParam()});
    buffer = pool.acquire(600'000);
  }
  std::memset(buffer.data, 1, 600'000);
  buffer.owner.reset();
}

INSTANTIATE_TEST_SUITE_P(All, SharedPoolKinds, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Shared" : "Alone");
});

std::span<const std::byte> bytes_of(const PoolBuffer& buffer, std::size_t from, std::size_t size) {
  return {buffer.data + from, size};
}

TEST(SharedPool, FindsTheBlockThatBytesLieIn) {
  const SharedPool::Options options;
  SharedPool pool(options);
  const PoolBuffer one = pool.acquire(100'000);
  const PoolBuffer other = pool.acquire(100'000);
  const auto here = pool.find(bytes_of(one, 1000, 99'000)).value();
  const auto there = pool.find(bytes_of(other, 0, other.capacity)).value();
  EXPECT_EQ(here.offset, 1000u);
  EXPECT_NE(here.block, there.block);
  EXPECT_NE(here.fd, there.fd);
  EXPECT_FALSE(pool.find(bytes_of(one, 1000, one.capacity - 999)));  // one byte too many
  EXPECT_FALSE(pool.find(bytes_of(pool.acquire(1000), 0, 1000)));    // plain memory
  const std::array<std::byte, 8> local{};
  EXPECT_FALSE(pool.find(local));
}

TEST(SharedPool, WhatHasNoOwnerIsNotFound) {
  const SharedPool::Options options;
  SharedPool pool(options);
  PoolBuffer buffer = pool.acquire(100'000);
  const auto bytes = bytes_of(buffer, 0, 8);
  buffer.owner.reset();
  EXPECT_FALSE(pool.find(bytes));
}

TEST(SharedPool, AHeldBlockIsNotUsedAgain) {
  const SharedPool::Options options;
  SharedPool pool(options);
  PoolBuffer buffer = pool.acquire(100'000);
  auto place = pool.find(bytes_of(buffer, 0, 8));
  buffer.owner.reset();
  EXPECT_NE(pool.acquire(100'000).data, buffer.data);
  place.reset();
  EXPECT_EQ(pool.acquire(100'000).data, buffer.data);
}

TEST(SharedPool, WhoeverElseHasTheDescriptorCanOnlyRead) {
  const SharedPool::Options options;
  SharedPool pool(options);
  const PoolBuffer buffer = pool.acquire(100'000);
  buffer.data[5] = std::byte{7};
  const auto place = pool.find(bytes_of(buffer, 0, 8)).value();
  const Fd again(open(("/proc/self/fd/" + std::to_string(place.fd)).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(again);
  for (const int fd : {place.fd, again.get()}) {
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
    EXPECT_EQ(ftruncate(fd, 0), -1);
    std::byte came{};
    EXPECT_EQ(pread(fd, &came, 1, 5), 1);
    EXPECT_EQ(came, std::byte{7});
  }
}

TEST(SharedPool, SaysWhichBlocksAreGone) {
  const SharedPool::Options options;
  SharedPool pool(options);
  PoolBuffer buffer = pool.acquire(100'000);
  const std::uint64_t block = pool.find(bytes_of(buffer, 0, 8)).value().block;
  buffer.owner.reset();
  EXPECT_TRUE(pool.has(block));
  const std::uint64_t before = pool.gone();
  pool.trim();
  pool.trim();
  EXPECT_FALSE(pool.has(block));
  EXPECT_GT(pool.gone(), before);
}

/// Until it is destroyed this process may open so many files.
struct OpenFileLimit {
  explicit OpenFileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit now = before;
    now.rlim_cur = files;
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~OpenFileLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;
  rlimit before{};
};

TEST(SharedPool, WithoutADescriptorABlockIsNotShared) {
  const SharedPool::Options options;
  SharedPool pool(options);
  PoolBuffer buffer;
  {
    const OpenFileLimit none(0);
    buffer = pool.acquire(100'000);
  }
  ASSERT_TRUE(buffer.owner);
  std::memset(buffer.data, 1, buffer.capacity);
  EXPECT_FALSE(pool.find(bytes_of(buffer, 0, 8)));
}

TEST(SharedPool, LeavesMostDescriptorsToOthers) {
  const OpenFileLimit limit(256);
  const SharedPool::Options options;
  SharedPool pool(options);
  std::vector<PoolBuffer> buffers;
  std::size_t shared = 0;
  for (int i = 0; i < 40; ++i) {
    buffers.push_back(pool.acquire(100'000));
    shared += pool.find(bytes_of(buffers.back(), 0, 8)).has_value();
  }
  EXPECT_EQ(shared, 32u);
}

}  // namespace
}  // namespace gradus::worker
