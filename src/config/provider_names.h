// The execution providers that ONNX Runtime knows, by full and short name, and the lists that
// `--providers` and ORT_PROVIDERS hold. A provider that comes as a library of its own
// (`provider_libraries:`) is known as well: callers pass the full names of those as `extra`.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gradus::config {

using ExtraProviders = std::span<const std::string>;

/// `cuda`, `CUDA`, `CUDAExecutionProvider`, ` webgpu ` -> the full name; nothing for unknown names.
std::optional<std::string> full_provider_name(std::string_view name, ExtraProviders extra = {});

/// `CUDA` for `CUDAExecutionProvider`; a name without that ending stays as it is.
std::string short_provider_name(std::string_view full_name);

/// False for the CPU's own providers (CPU, OpenVINO, Dnnl, Xnnpack, …), true for accelerators, to
/// which every name outside the table belongs.
bool is_gpu_provider(std::string_view full_name);

/// `CUDAExecutionProvider;CPUExecutionProvider`, `cuda, cpu`: separated by `;` or `,`, blanks and
/// case do not matter, repeated names count once. Empty or blank: nothing (the default order).
/// kInvalid names the unknown words and lists the known names.
Result<std::optional<std::vector<std::string>>> parse_provider_list(std::string_view text,
                                                                    ExtraProviders extra = {});

/// `unknown provider "cdua"; known: …`, as `parse_provider_list` says it.
std::string unknown_provider(std::string_view word, ExtraProviders extra = {});

/// Every full name of the table, GPU providers first.
const std::vector<std::string>& known_providers();

/// Which providers the default ladder tries, full names, best first.
struct ProviderOrder {
  std::vector<std::string> gpu;  // level 0
  std::vector<std::string> cpu;  // the levels below it
};

/// With a list: its names, in its order. Without one: `extra` accelerators, then CUDA, MIGraphX and
/// WebGPU (others must be asked for: they compile for minutes, or fit one kind of machine); the CPU
/// provider alone below.
ProviderOrder provider_order(const std::optional<std::vector<std::string>>& list,
                             ExtraProviders extra);

}  // namespace gradus::config
