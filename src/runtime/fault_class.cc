#include "runtime/fault_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace gradus::runtime {
namespace {

struct Row {
  std::string_view text;  // found anywhere, without regard to case
  FaultClass fault;
};

// The first row that fits decides: what is more specific comes first.
constexpr std::array kTexts = {
    Row{"CUBLAS_STATUS_ALLOC_FAILED", FaultClass::kOutOfMemory},
    Row{"CUDNN_STATUS_ALLOC_FAILED", FaultClass::kOutOfMemory},
    Row{"failed to allocate memory", FaultClass::kOutOfMemory},
    Row{"bad_alloc", FaultClass::kOutOfMemory},
    Row{"out of memory", FaultClass::kOutOfMemory},
    Row{"available memory of", FaultClass::kOutOfMemory},
    Row{"OUT_OF_DEVICE_MEMORY", FaultClass::kOutOfMemory},
    Row{"OUT_OF_HOST_MEMORY", FaultClass::kOutOfMemory},
    // An OpenCL context never recovers from it, whatever its name says.
    Row{"CL_OUT_OF_RESOURCES", FaultClass::kSticky},
    Row{"illegal memory access", FaultClass::kSticky},
    Row{"device-side assert", FaultClass::kSticky},
    Row{"misaligned address", FaultClass::kSticky},
    Row{"illegal instruction was encountered", FaultClass::kSticky},
    Row{"not supported on global/shared address space", FaultClass::kSticky},
    Row{"invalid program counter", FaultClass::kSticky},
    Row{"hardware stack error", FaultClass::kSticky},
    Row{"launch timed out and was terminated", FaultClass::kSticky},
    Row{"unspecified launch failure", FaultClass::kSticky},
    Row{"DEVICE_LOST", FaultClass::kSticky},
    Row{"device lost", FaultClass::kSticky},
    Row{"device was lost", FaultClass::kSticky},
    Row{"[Device] is lost", FaultClass::kSticky},  // Dawn's
    Row{"fallen off the bus", FaultClass::kSticky},
    Row{"Failed to initialize NVML", FaultClass::kSticky},
    Row{"CUDNN_STATUS_NOT_INITIALIZED", FaultClass::kConfiguration},
    Row{"CUBLAS_STATUS_NOT_INITIALIZED", FaultClass::kConfiguration},
    Row{"Failed to load shared library", FaultClass::kConfiguration},
    Row{"Failed to load library", FaultClass::kConfiguration},
    Row{"cannot open shared object", FaultClass::kConfiguration},
    Row{"Unknown provider name", FaultClass::kConfiguration},
    Row{"not supported in this build", FaultClass::kConfiguration},
    Row{"not in this ONNX Runtime", FaultClass::kConfiguration},
    Row{"driver version is insufficient", FaultClass::kConfiguration},
};

constexpr std::array<std::string_view, 5> kShapesDisagree = {
    "Attempting to broadcast", "out of data bounds", "out of bounds", "Invalid dimension",
    "dimension mismatch"};

// What WebGPU has bounds for, however much memory is free: it is no matter of the level's health.
constexpr std::array<std::string_view, 4> kTooLarge = {
    "exceeds the max buffer size limit", "larger than the maximum storage buffer binding size",
    "exceeding maxStorageBufferBindingSize", "Too many storage buffers in shader"};

// Case costs a loop, and is no matter: runs fail rarely.
bool contains(std::string_view text, std::string_view part) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  for (std::size_t at = 0; at + part.size() <= text.size(); ++at) {
    std::size_t i = 0;
    while (i < part.size() && lower(text[at + i]) == lower(part[i])) ++i;
    if (i == part.size()) return true;
  }
  return false;
}

// `CUDA failure 700: …`, `CUDA error 719`; cudaError_t of the CUDA runtime API.
std::optional<FaultClass> by_cuda_number(std::string_view text) {
  for (const std::string_view before : {"CUDA failure ", "CUDA error "}) {
    const std::size_t at = text.find(before);
    if (at == std::string_view::npos) continue;
    const int number = std::atoi(std::string(text.substr(at + before.size(), 6)).c_str());
    if (number == 2) return FaultClass::kOutOfMemory;
    if (number == 700 || number == 702 || number == 710 || (number >= 714 && number <= 719)) {
      return FaultClass::kSticky;
    }
    // Driver too old, driver and runtime do not fit. Not 100 and 101: a device may come.
    if (number == 35 || number == 803 || number == 804) {
      return FaultClass::kConfiguration;
    }
  }
  return std::nullopt;
}

std::optional<FaultClass> by_text(std::string_view text) {
  if (const auto fault = by_cuda_number(text)) return fault;
  for (const Row& row : kTexts) {
    if (contains(text, row.text)) return row.fault;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(FaultClass fault) {
  switch (fault) {
    case FaultClass::kRequest:
      return "request";
    case FaultClass::kTransient:
      return "transient";
    case FaultClass::kOutOfMemory:
      return "out_of_memory";
    case FaultClass::kConfiguration:
      return "configuration";
    case FaultClass::kSticky:
      return "sticky";
  }
  std::abort();
}

FaultClass fault_class(int ort_code, std::string_view text, bool on_cpu) {
  if (ort_code == kOrtInvalidArgument) return FaultClass::kRequest;
  const auto fault = by_text(text);
  if (on_cpu) return fault == FaultClass::kOutOfMemory ? *fault : FaultClass::kRequest;
  if (fault) return *fault;
  const auto is_said = [&](std::string_view part) { return contains(text, part); };
  const bool inputs =
      std::ranges::any_of(kShapesDisagree, is_said) || std::ranges::any_of(kTooLarge, is_said);
  return inputs ? FaultClass::kRequest : FaultClass::kTransient;
}

FaultClass fault_class(const Error& error) {
  if (error.code == Code::kInvalid) return FaultClass::kRequest;
  return by_text(error.message).value_or(FaultClass::kTransient);
}

bool is_configuration(const Error& error) {
  const std::string_view text = error.message;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find("; ", begin), text.size());
    if (by_text(text.substr(begin, end - begin)) != FaultClass::kConfiguration) return false;
    begin = end + 2;
  }
  return true;
}

Code code_of(FaultClass fault) {
  return fault == FaultClass::kRequest ? Code::kInvalid : Code::kUnavailable;
}

}  // namespace gradus::runtime
