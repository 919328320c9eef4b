#include "worker/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace gradus::worker {
namespace {

TEST(Segment, WhatTheMakerWritesTheOtherSideReads) {
  const auto made = Segment::make(100).value();
  const auto opened = Segment::open(Fd(dup(made->fd()))).value();
  made->writable()[99] = std::byte{7};
  EXPECT_EQ(opened->data()[99], std::byte{7});
  EXPECT_EQ(opened->size(), made->size());
  EXPECT_GE(made->size(), 100U);
}

TEST(Segment, TheOtherSideCanNeitherWriteNorResizeIt) {
  const auto made = Segment::make(100).value();
  EXPECT_EQ(mmap(nullptr, made->size(), PROT_READ | PROT_WRITE, MAP_SHARED, made->fd(), 0),
            MAP_FAILED);
  EXPECT_EQ(write(made->fd(), "x", 1), -1);
  EXPECT_EQ(ftruncate(made->fd(), 0), -1);
  EXPECT_EQ(ftruncate(made->fd(), 1 << 20), -1);
  EXPECT_EQ(fcntl(made->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(Segment, MemoryThatItsOwnerCouldCutOffIsRefused) {
  const Fd plain(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fallocate(plain.get(), 0, 0, 4096), 0);
  EXPECT_FALSE(Segment::open(plain));
  ASSERT_EQ(fcntl(plain.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(Segment::open(plain));
}

TEST(Segment, MemoryThatIsNotThereYetIsNotMappedAtOnce) {
  const Fd sparse(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sparse.get(), 1 << 20), 0);
  ASSERT_EQ(fallocate(sparse.get(), 0, 0, 1 << 19), 0);
  ASSERT_TRUE(seal_for_readers(sparse));
  EXPECT_FALSE(Segment::open(sparse));
  EXPECT_TRUE(Segment::open(sparse, Segment::Pages::kTouched));
}

TEST(Segment, MoreThanIsWantedIsRefused) {
  const auto made = Segment::make(100'000).value();
  const Fd fd(dup(made->fd()));
  EXPECT_TRUE(Segment::open(fd, Segment::Pages::kAll, Segment::roomy(100'000)));
  EXPECT_FALSE(Segment::open(fd, Segment::Pages::kAll, made->size() - 1));
}

TEST(Segment, AbsurdSizesAreRefused) {
  EXPECT_FALSE(Segment::make(std::size_t{1} << 50));
  const Fd vast(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(vast.get(), off_t{kMaxSegment} + 4096), 0);
  ASSERT_TRUE(seal_for_readers(vast));
  const auto opened = Segment::open(vast, Segment::Pages::kTouched, std::size_t{1} << 50);
  ASSERT_FALSE(opened) << "whatever its peer claims to need";
  EXPECT_EQ(opened.error().code, Code::kInternal);
  const Fd empty(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Segment::open(empty));
}

TEST(Segment, EmptyTensorsHaveAPlaceToo) { EXPECT_TRUE(Segment::make(0)); }

}  // namespace
}  // namespace gradus::worker
