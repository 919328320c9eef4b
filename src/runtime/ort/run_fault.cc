#include "runtime/ort/run_fault.h"

#include <algorithm>
#include <array>

namespace gradus::runtime {
namespace {

constexpr std::array<std::string_view, 4> kOutOfMemory = {"Failed to allocate memory", "bad_alloc",
                                                          "out of memory", "Available memory of"};

constexpr std::array<std::string_view, 5> kShapesDisagree = {
    "Attempting to broadcast", "out of data bounds", "out of bounds", "Invalid dimension",
    "dimension mismatch"};

bool contains_one(std::string_view text, const auto& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace

Code fault_of_run(OrtErrorCode code, std::string_view text, bool on_cpu) {
  if (code == ORT_INVALID_ARGUMENT) return Code::kInvalid;
  if (contains_one(text, kOutOfMemory)) return Code::kUnavailable;
  return on_cpu || contains_one(text, kShapesDisagree) ? Code::kInvalid : Code::kUnavailable;
}

}  // namespace gradus::runtime
