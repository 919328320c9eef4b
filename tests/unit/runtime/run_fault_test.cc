#include "runtime/ort/run_fault.h"

#include <gtest/gtest.h>

namespace gradus::runtime {
namespace {

constexpr const char* kBroadcast =
    "Non-zero status code returned while running Add node. Attempting to broadcast an axis by a "
    "dimension other than 1. 256 by 300";

TEST(FaultOfRun, ShapesThatDoNotFitAreTheRequestsFault) {
  EXPECT_EQ(fault_of_run(ORT_RUNTIME_EXCEPTION, kBroadcast, true), Code::kInvalid);
  EXPECT_EQ(fault_of_run(ORT_RUNTIME_EXCEPTION, kBroadcast, false), Code::kInvalid);
  EXPECT_EQ(fault_of_run(ORT_INVALID_ARGUMENT, "Got invalid dimensions", false), Code::kInvalid);
}

TEST(FaultOfRun, WantOfMemoryIsTheLevels) {
  const char* text = "Failed to allocate memory for requested buffer of size 1073741824";
  EXPECT_EQ(fault_of_run(ORT_RUNTIME_EXCEPTION, text, true), Code::kUnavailable);
  EXPECT_EQ(fault_of_run(ORT_RUNTIME_EXCEPTION, "std::bad_alloc", true), Code::kUnavailable);
}

TEST(FaultOfRun, OnlyTheCpusOtherErrorsAreTheInputs) {
  const char* text = "CUDA failure 700: an illegal memory access was encountered";
  EXPECT_EQ(fault_of_run(ORT_FAIL, text, false), Code::kUnavailable);
  EXPECT_EQ(fault_of_run(ORT_FAIL, "Non-zero status code: Reshape", true), Code::kInvalid);
}

}  // namespace
}  // namespace gradus::runtime
