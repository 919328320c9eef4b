#include "api/http/body_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace gradus::api {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
  }
  return 0;
}

TEST(BodyPool, UsesALargeBufferAgain) {
  BodyPool pool(64 * kMiB);
  BodyBuffer first = pool.acquire(600'000);
  ASSERT_TRUE(first.owner);
  EXPECT_GE(first.capacity, 600'000u);
  std::memset(first.data, 1, 600'000);
  std::byte* const where = first.data;
  first.owner.reset();
  EXPECT_EQ(pool.kept_bytes(), 600'000u);
  EXPECT_EQ(pool.acquire(700'000).data, where);
}

TEST(BodyPool, NeverHandsOutABufferTwice) {
  BodyPool pool(64 * kMiB);
  const BodyBuffer first = pool.acquire(600'000);
  const BodyBuffer second = pool.acquire(600'000);
  EXPECT_NE(first.data, second.data);
}

TEST(BodyPool, AlignsEveryBuffer) {
  BodyPool pool(64 * kMiB);
  for (const std::size_t size : {1, 100, 32'000, 33'000, 1'000'000}) {
    const BodyBuffer buffer = pool.acquire(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0u) << size;
    std::memset(buffer.data, 1, size);
  }
}

TEST(BodyPool, AnAnnouncedSizeCostsNoMemory) {
  BodyPool pool(64 * kMiB);
  const std::size_t before = resident_kib();
  const BodyBuffer buffer = pool.acquire(1024 * kMiB);
  ASSERT_TRUE(buffer.owner);
  buffer.data[0] = std::byte{1};
  EXPECT_LT(resident_kib(), before + 8 * 1024);
}

TEST(BodyPool, RefusesWhatNoSystemHas) {
  BodyPool pool(64 * kMiB);
  EXPECT_FALSE(pool.acquire(std::size_t{1} << 50).owner);
  EXPECT_FALSE(pool.acquire(std::size_t{1} << 47).owner);
}

TEST(BodyPool, KeepsNoMoreThanItIsTold) {
  BodyPool pool(kMiB);
  BodyBuffer first = pool.acquire(600'000);
  BodyBuffer second = pool.acquire(600'000);
  first.owner.reset();
  second.owner.reset();
  EXPECT_EQ(pool.kept_bytes(), 600'000u);
}

TEST(BodyPool, TrimsWhatNobodyNeededSinceTheLastTrim) {
  BodyPool pool(64 * kMiB);
  BodyBuffer first = pool.acquire(600'000);
  BodyBuffer second = pool.acquire(600'000);
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

TEST(BodyPool, ABufferMayOutliveIt) {
  BodyBuffer buffer;
  {
    BodyPool pool(64 * kMiB);
    buffer = pool.acquire(600'000);
  }
  std::memset(buffer.data, 1, 600'000);
  buffer.owner.reset();
}

}  // namespace
}  // namespace gradus::api
