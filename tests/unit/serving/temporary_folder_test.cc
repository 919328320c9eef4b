#include "serving/temporary_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

namespace gradus::serving {
namespace {

namespace fs = std::filesystem;

// With a place of its own for temporary folders.
class TemporaryFolderTest : public ::testing::Test {
 protected:
  TemporaryFolderTest() {
    std::string pattern = (fs::temp_directory_path() / "gradus-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    if (const char* const set = std::getenv("TMPDIR")) before_ = set;
    setenv("TMPDIR", root_.c_str(), 1);
  }
  ~TemporaryFolderTest() override {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
    fs::remove_all(root_);
  }

  static std::shared_ptr<const TemporaryFolder> make() {
    return TemporaryFolder::make({{"1/model.onnx", "x"}}).value();
  }

  // A name as make() gives them.
  static fs::path name(const std::string& end) {
    const std::string made = make()->path().string();
    return made.substr(0, made.size() - 6) + end;
  }

  // As a process leaves it that is killed.
  fs::path left_over(const std::string& end) const {
    const fs::path path = name(end);
    fs::create_directories(path / "1");
    std::ofstream(path / "1" / "model.onnx") << "x";
    return path;
  }

  fs::path root_;
  std::string before_;
};

TEST_F(TemporaryFolderTest, GoesWithItsOwner) {
  fs::path path;
  {
    const auto folder = make();
    path = folder->path();
    EXPECT_EQ(path.parent_path(), root_);
    EXPECT_TRUE(fs::exists(path / "1" / "model.onnx"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TemporaryFolderTest, ALeftOverOneIsRemovedAndOneInUseIsKept) {
  const auto used = make();
  const fs::path left = left_over("ABC123");
  fs::create_directories(root_ / "other");
  std::ofstream(root_ / "other" / "file") << "x";
  fs::create_symlink(root_ / "other", left / "1" / "link");
  remove_left_over_folders();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(used->path() / "1" / "model.onnx"));
  EXPECT_TRUE(fs::exists(root_ / "other" / "file")) << "links are not followed";
}

TEST_F(TemporaryFolderTest, WhatIsNoFolderOfOurOwnIsKept) {
  const fs::path longer = left_over("ABC1234");
  const fs::path link = name("linked");
  fs::create_directories(root_ / "other");
  std::ofstream(root_ / "other" / "file") << "x";
  fs::create_symlink(root_ / "other", link);
  const fs::path file = name("a_file");
  std::ofstream(file) << "x";
  remove_left_over_folders();
  EXPECT_TRUE(fs::exists(longer / "1" / "model.onnx"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(root_ / "other" / "file"));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(TemporaryFolderTest, OneOfAnotherUserIsKept) {
  const fs::path foreign = left_over("ABC123");
  if (chown(foreign.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "may not give it away";
  remove_left_over_folders();
  EXPECT_TRUE(fs::exists(foreign / "1" / "model.onnx"));
}

TEST_F(TemporaryFolderTest, OneThatIsBeingMadeIsNotLost) {
  const std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested()) remove_left_over_folders();
  });
  for (int i = 0; i < 300; ++i) {
    const auto folder = make();
    ASSERT_TRUE(fs::exists(folder->path() / "1" / "model.onnx")) << i;
  }
}

}  // namespace
}  // namespace gradus::serving
