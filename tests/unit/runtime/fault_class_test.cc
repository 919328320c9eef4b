#include "runtime/fault_class.h"

#include <gtest/gtest.h>

namespace gradus::runtime {
namespace {

constexpr int kOrtFail = 1;
constexpr int kOrtRuntimeException = 6;
constexpr const char* kBroadcast =
    "Non-zero status code returned while running Add node. Attempting to broadcast an axis by a "
    "dimension other than 1. 256 by 300";

Code code(int ort_code, const char* text, bool on_cpu) {
  return code_of(fault_class(ort_code, text, on_cpu));
}

TEST(FaultClass, ShapesThatDoNotFitAreTheRequestsFault) {
  EXPECT_EQ(code(kOrtRuntimeException, kBroadcast, true), Code::kInvalid);
  EXPECT_EQ(code(kOrtRuntimeException, kBroadcast, false), Code::kInvalid);
  EXPECT_EQ(code(kOrtInvalidArgument, "Got invalid dimensions", false), Code::kInvalid);
}

TEST(FaultClass, WhatWebGpuHasBoundsForIsTheRequestsFault) {
  for (const char* text :
       {"Too many storage buffers in shader. Current: 20, Max is 16",
        "Tensor of 2147483648 bytes, exceeding maxStorageBufferBindingSize of 134217728",
        "WebGPU validation failed. Binding size (151781376) of [Buffer (unlabeled)] is larger "
        "than the maximum storage buffer binding size (134217728).",
        "WebGPU validation failed. [Invalid Buffer (unlabeled)] is invalid. (WebGPU device "
        "error(2): Buffer size (3185049600) exceeds the max buffer size limit (1073741824).)"}) {
    EXPECT_EQ(code(kOrtFail, text, false), Code::kInvalid) << text;
  }
}

TEST(FaultClass, WantOfMemoryIsTheLevels) {
  const char* text = "Failed to allocate memory for requested buffer of size 1073741824";
  EXPECT_EQ(code(kOrtRuntimeException, text, true), Code::kUnavailable);
  EXPECT_EQ(code(kOrtRuntimeException, "std::bad_alloc", true), Code::kUnavailable);
}

TEST(FaultClass, OnlyTheCpusOtherErrorsAreTheInputs) {
  const char* text = "CUDA failure 700: an illegal memory access was encountered";
  EXPECT_EQ(code(kOrtFail, text, false), Code::kUnavailable);
  EXPECT_EQ(code(kOrtFail, "Non-zero status code: Reshape", true), Code::kInvalid);
}

TEST(FaultClass, TextsSeenInTheFieldHaveTheirClass) {
  const struct {
    const char* text;
    FaultClass fault;
  } seen[] = {
      {"CUDA failure 700: an illegal memory access was encountered", FaultClass::kSticky},
      {"CUDA error 719", FaultClass::kSticky},
      {"CUDA failure 710: device-side assert triggered ; GPU=0", FaultClass::kSticky},
      {"device-side assert triggered", FaultClass::kSticky},
      {"CUDA failure 714: x", FaultClass::kSticky},
      {"CUDA error cudaErrorIllegalInstruction:an illegal instruction was encountered",
       FaultClass::kSticky},
      {"CUDA error cudaErrorIllegalAddress:an illegal memory access was encountered",
       FaultClass::kSticky},
      {"CUDA error cudaErrorMisalignedAddress:misaligned address", FaultClass::kSticky},
      {"CUDA error cudaErrorInvalidAddressSpace:operation not supported on global/shared address "
       "space",
       FaultClass::kSticky},
      {"CUDA error cudaErrorInvalidPc:invalid program counter", FaultClass::kSticky},
      {"CUDA error cudaErrorHardwareStackError:hardware stack error", FaultClass::kSticky},
      {"CUDA error cudaErrorLaunchTimeout:the launch timed out and was terminated",
       FaultClass::kSticky},
      {"CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED", FaultClass::kTransient},
      {"CUDA failure 713: x", FaultClass::kTransient},
      {"CL_OUT_OF_RESOURCES", FaultClass::kSticky},
      {"vkQueueSubmit failed with VK_ERROR_DEVICE_LOST", FaultClass::kSticky},
      {"Failed to initialize NVML: Unknown Error", FaultClass::kSticky},
      {"CUDA failure 2: out of memory ; GPU=0", FaultClass::kOutOfMemory},
      {"Available memory of 1024 is smaller than requested bytes of 2048",
       FaultClass::kOutOfMemory},
      {"Failed to allocate memory for requested buffer of size 42", FaultClass::kOutOfMemory},
      {"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", FaultClass::kOutOfMemory},
      {"CUBLAS error executing cublasGemmHelper", FaultClass::kTransient},
      {"CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED", FaultClass::kTransient},
      {"CUDNN failure 1001: CUDNN_STATUS_NOT_INITIALIZED", FaultClass::kConfiguration},
      {"CUDA failure 35: CUDA driver version is insufficient", FaultClass::kConfiguration},
      {"CUDA failure 804: forward compatibility was attempted", FaultClass::kConfiguration},
      {"not in this ONNX Runtime", FaultClass::kConfiguration},
      {"CUDA failure 100: no CUDA-capable device is detected", FaultClass::kTransient},
      {"Failed to load shared library", FaultClass::kConfiguration},
      {"WebGPU validation failed. [Invalid Buffer (unlabeled)] is invalid. (WebGPU device "
       "error(3): vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY)",
       FaultClass::kOutOfMemory},
      {"Too many storage buffers in shader. Current: 39, Max is 16 (WebGPU device error(3): "
       "vkCreateBuffer failed with VK_ERROR_OUT_OF_DEVICE_MEMORY)",
       FaultClass::kOutOfMemory},
      {"WebGPU validation failed. [Device] is lost.", FaultClass::kSticky},
      {"WebGPU validation failed. [Invalid Buffer (unlabeled)] is invalid.",
       FaultClass::kTransient},
      {"something nobody has seen", FaultClass::kTransient},
  };
  for (const auto& [text, fault] : seen) {
    EXPECT_EQ(to_string(fault_class(kOrtFail, text, false)), to_string(fault)) << text;
    EXPECT_EQ(to_string(fault_class(Error{Code::kUnavailable, text})), to_string(fault)) << text;
  }
}

TEST(FaultClass, ALoadIsUpToTheConfigurationWhereAllItsProvidersAre) {
  const auto is = [](const char* text) { return is_configuration({Code::kUnavailable, text}); };
  EXPECT_TRUE(is("CUDAExecutionProvider: not in this ONNX Runtime"));
  EXPECT_TRUE(is("A: not in this ONNX Runtime; B: libb.so.1: cannot open shared object file"));
  EXPECT_FALSE(is("A: not in this ONNX Runtime; B: no Vulkan device")) << "one may come";
  EXPECT_FALSE(is("A: its library offers no device here"));
  EXPECT_FALSE(is(""));
}

TEST(FaultClass, AnErrorThatBlamesTheRequestStaysTheRequests) {
  EXPECT_EQ(fault_class(Error{Code::kInvalid, "out of memory"}), FaultClass::kRequest);
}

}  // namespace
}  // namespace gradus::runtime
