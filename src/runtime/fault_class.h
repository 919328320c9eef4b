// What a fault means, from what ONNX Runtime says of it: whose it is, and what helps. ONNX
// Runtime's codes tell little (most faults are 1 or 6), so its texts decide, by one table.
#pragma once
#include <string_view>

#include "base/result.h"

namespace gradus::runtime {

enum class FaultClass {
  kRequest,        // its own inputs; never counted against a level
  kTransient,      // may well work the next time; what no row of the table knows is this too
  kOutOfMemory,    // another level may have room; a smaller request may fit
  kConfiguration,  // a library or driver is missing or too old: trying again alone helps nothing
  kSticky,         // the device context is poisoned until its process ends
};

/// `request`, `transient`, `out_of_memory`, `configuration`, `sticky`.
std::string_view to_string(FaultClass fault);

inline constexpr int kOrtInvalidArgument = 2;  // OrtErrorCode's

/// The CPU provider's kernels fail by what they are given or for want of memory, nothing else. What
/// an accelerator says may be anything; there only texts of ONNX Runtime's own shape checks, and of
/// WebGPU's bounds on sizes, are believed to be about the inputs.
/// @param ort_code an OrtErrorCode; @param on_cpu the CPU provider alone ran
FaultClass fault_class(int ort_code, std::string_view text, bool on_cpu);

/// Of an error that a Backend returned: kInvalid is the request's, any other is judged by its text.
FaultClass fault_class(const Error& error);

/// Of an error that a load returned, which names what each provider failed for (failures_text()):
/// all of them are kConfiguration. A device that is missing may come, and is not.
bool is_configuration(const Error& error);

/// As Backend::run returns it: kInvalid for the request's own, kUnavailable for all others.
Code code_of(FaultClass fault);

}  // namespace gradus::runtime
