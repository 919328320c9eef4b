#include "runtime/ort/error_text.h"

#include <gtest/gtest.h>

namespace gradus::runtime {
namespace {

TEST(ErrorText, LeavesTheCause) {
  EXPECT_EQ(error_text("Error creating execution provider: [ONNXRuntimeError] : 11 : EP_FAIL : "
                       "/onnxruntime_src/x/webgpu_context.cc:136 Foo::Bar(int)::<lambda()> "
                       "result.status == Status::Success was false. Failed to get a WebGPU "
                       "adapter: No supported adapters\n"),
            "Failed to get a WebGPU adapter: No supported adapters");
  EXPECT_EQ(error_text("Load model from /a/b.onnx failed:Protobuf parsing failed."),
            "Load model from /a/b.onnx failed:Protobuf parsing failed.");
  EXPECT_EQ(error_text("two\n\n  lines\t"), "two lines");
  EXPECT_EQ(error_text(std::string(5000, 'x')).size(), 600 + std::string("…").size());
}

TEST(ErrorText, AddsTheCauseThatOnlyTheLogHas) {
  LogCapture log;
  write_ort_log(nullptr, ORT_LOGGING_LEVEL_WARNING, "onnxruntime", "", "a.cc:1", "chatter");
  write_ort_log(nullptr, ORT_LOGGING_LEVEL_ERROR, "onnxruntime", "", "a.cc:2",
                "Failed to load library: libcuda.so.1: cannot open shared object file");
  write_ort_log(nullptr, ORT_LOGGING_LEVEL_ERROR, "onnxruntime", "", "a.cc:3", "it failed");
  EXPECT_EQ(error_text("Because it failed", log),
            "Because it failed (Failed to load library: libcuda.so.1: cannot open shared object "
            "file)");
}

TEST(LogCapture, InnermostKeepsAndOuterGoesOn) {
  LogCapture outer;
  {
    LogCapture inner;
    write_ort_log(nullptr, ORT_LOGGING_LEVEL_WARNING, "", "", "", "inside");
    EXPECT_EQ(inner.causes(), std::vector<std::string>{"inside"});
  }
  EXPECT_TRUE(outer.causes().empty());
  write_ort_log(nullptr, ORT_LOGGING_LEVEL_WARNING, "", "", "", "outside");
  EXPECT_EQ(outer.causes(), std::vector<std::string>{"outside"});
}

}  // namespace
}  // namespace gradus::runtime
