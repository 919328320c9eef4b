#include "runtime/ort/input_dims.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace gradus::runtime {
namespace {

namespace fs = std::filesystem;

TEST(ShapesVary, ABatchThatVariesIsNoVaryingShape) {
  EXPECT_FALSE(shapes_vary(fs::path(GRADUS_DEMO) / "models/fashion/1/model.onnx"));
  EXPECT_FALSE(shapes_vary(fs::path(GRADUS_DEMO) / "models/fashion/1/model.int8.onnx"));
}

TEST(ShapesVary, LengthsAndPictureSizesDo) {
  EXPECT_TRUE(shapes_vary(fs::path(GRADUS_DEMO) / "models/langid/1/model.onnx"));
  EXPECT_TRUE(shapes_vary(fs::path(GRADUS_DEMO) / "models/upscale/1/model.small.onnx"));
}

TEST(ShapesVary, WhatCannotBeReadCountsAsVarying) {
  EXPECT_TRUE(shapes_vary("/nonexistent.onnx"));
  EXPECT_TRUE(shapes_vary("/"));
}

TEST(ShapesVary, SurvivesEveryCutAndDamageOfAFile) {
  std::ifstream whole(fs::path(GRADUS_DEMO) / "models/fashion/1/model.small.onnx",
                      std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  const fs::path file = fs::temp_directory_path() / ("input_dims_" + std::to_string(getpid()));
  const auto write = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
  };
  for (std::size_t cut = 0; cut < 200; ++cut) {
    write(bytes.substr(0, bytes.size() * cut / 200));
    EXPECT_TRUE(shapes_vary(file)) << "cut at " << cut;
  }
  for (std::size_t at = 0; at < 500; ++at) {
    std::string damaged = bytes;
    damaged[at * 7919 % damaged.size()] ^= static_cast<char>(0xff);
    write(damaged);
    shapes_vary(file);  // either answer, no crash
  }
  fs::remove(file);
}

}  // namespace
}  // namespace gradus::runtime
