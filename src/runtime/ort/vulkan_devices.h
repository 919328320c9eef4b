// Which GPUs the Vulkan loader really offers. WebGPU picks its adapter on its own and says little
// when there is none; this says why, and tells a software driver from a GPU.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace gradus::runtime {

struct VulkanDevice {
  std::string name;       // `llvmpipe (LLVM 15.0.6, 256 bits)`
  bool software = false;  // VK_PHYSICAL_DEVICE_TYPE_CPU
};

/// Never empty; kUnavailable: no loader library, no driver, no device. Loads and unloads drivers,
/// tens of milliseconds; any thread.
Result<std::vector<VulkanDevice>> vulkan_devices();

}  // namespace gradus::runtime
