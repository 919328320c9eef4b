// ONNX Runtime's errors made fit to be read: one line, the cause without the source positions and
// function signatures around it.
#pragma once
#include <string>
#include <string_view>

#include "runtime/ort/ort_log.h"

namespace gradus::runtime {

/// `…context.cc:136 Foo::Bar() ok was false. Failed to get a WebGPU adapter` -> `Failed to get a
/// WebGPU adapter`. At most 600 bytes.
std::string error_text(std::string_view message);

/// The error, and what was logged of its cause where the error itself does not say it.
std::string error_text(std::string_view message, const LogCapture& log);

}  // namespace gradus::runtime
