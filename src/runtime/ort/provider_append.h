// Asking a session for a provider: each kind is asked in the way that gives its real error.
#pragma once
#include <onnxruntime_cxx_api.h>

#include "base/result.h"
#include "runtime/load.h"
#include "runtime/ort/environment.h"

namespace gradus::runtime {

constexpr const char* kCpuProvider = "CPUExecutionProvider";
constexpr const char* kWebGpuProvider = "WebGpuExecutionProvider";

/// Appends `provider` with its options as given. Throws Ort::Exception; kUnavailable: this ONNX
/// Runtime does not have it, its library is broken, or it offers no such device.
Result<void> append_provider(Ort::SessionOptions& session, Environment& environment,
                             const LoadSpec& spec, const config::ProviderConfig& provider);

}  // namespace gradus::runtime
