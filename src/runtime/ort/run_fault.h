// Whose fault a failed run is: the request's own, which must never count against a level, or the
// level's, so that another may answer.
#pragma once
#include <onnxruntime_c_api.h>

#include <string_view>

#include "base/result.h"

namespace gradus::runtime {

/// kInvalid: the inputs. kUnavailable: the device, the provider, or memory ran out.
///
/// The CPU provider's kernels fail by what they are given or for want of memory, nothing else. What
/// an accelerator says may be anything; there only texts of ONNX Runtime's own shape checks are
/// believed.
Code fault_of_run(OrtErrorCode code, std::string_view text, bool on_cpu);

}  // namespace gradus::runtime
