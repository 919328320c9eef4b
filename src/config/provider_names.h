// The execution providers that ONNX Runtime knows, by full and short name, and the lists that
// `--providers` and ORT_PROVIDERS hold.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gradus::config {

/// `cuda`, `CUDA`, `CUDAExecutionProvider`, ` webgpu ` -> the full name; nothing for unknown names.
std::optional<std::string> full_provider_name(std::string_view name);

/// False for the CPU's own providers (CPU, OpenVINO, DNNL, XNNPACK, …), true for accelerators.
bool is_gpu_provider(std::string_view full_name);

/// `CUDAExecutionProvider;CPUExecutionProvider`, `cuda, cpu`: separated by `;` or `,`, blanks and
/// case do not matter, repeated names count once. Empty or blank: nothing (the default order).
/// kInvalid names the unknown word and lists the known names.
Result<std::optional<std::vector<std::string>>> parse_provider_list(std::string_view text);

/// Every full name, GPU providers in the order in which level 0 tries them by default.
const std::vector<std::string>& known_providers();

}  // namespace gradus::config
