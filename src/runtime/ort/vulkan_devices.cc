#include "runtime/ort/vulkan_devices.h"

#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace gradus::runtime {
namespace {

constexpr const char* kLoader = "libvulkan.so.1";

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function entry(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char* name) {
  return reinterpret_cast<Function>(get(instance, name));
}

Result<std::vector<VulkanDevice>> devices_of(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
  const auto enumerate =
      entry<PFN_vkEnumeratePhysicalDevices>(get, instance, "vkEnumeratePhysicalDevices");
  const auto properties_of =
      entry<PFN_vkGetPhysicalDeviceProperties>(get, instance, "vkGetPhysicalDeviceProperties");
  std::uint32_t count = 0;
  VkResult result = enumerate(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> handles(count);
  if (result == VK_SUCCESS && count > 0) result = enumerate(instance, &count, handles.data());
  if (result != VK_SUCCESS) {
    return fail(Code::kUnavailable,
                "no Vulkan device: the drivers failed to list theirs (VkResult " +
                    std::to_string(result) + ")");
  }
  if (count == 0) return fail(Code::kUnavailable, "no Vulkan device: the drivers offer none");
  std::vector<VulkanDevice> devices;
  for (std::uint32_t i = 0; i < count; ++i) {
    VkPhysicalDeviceProperties properties{};
    properties_of(handles[i], &properties);
    devices.push_back(
        {properties.deviceName, properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU});
  }
  return devices;
}

}  // namespace

Result<std::vector<VulkanDevice>> vulkan_devices() {
  const std::unique_ptr<void, CloseLibrary> library(dlopen(kLoader, RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    return fail(Code::kUnavailable, std::string("no Vulkan loader: ") + dlerror());
  }
  const auto get =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library.get(), "vkGetInstanceProcAddr"));
  if (get == nullptr) {
    return fail(Code::kUnavailable, std::string("no Vulkan loader: ") + dlerror());
  }
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  VkInstance instance = nullptr;
  const VkResult result =
      entry<PFN_vkCreateInstance>(get, nullptr, "vkCreateInstance")(&info, nullptr, &instance);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return fail(Code::kUnavailable, "no Vulkan device: the loader found no driver");
  }
  if (result != VK_SUCCESS) {
    return fail(Code::kUnavailable, "no Vulkan device: vkCreateInstance failed (VkResult " +
                                        std::to_string(result) + ")");
  }
  auto devices = devices_of(get, instance);
  entry<PFN_vkDestroyInstance>(get, instance, "vkDestroyInstance")(instance, nullptr);
  return devices;
}

}  // namespace gradus::runtime
