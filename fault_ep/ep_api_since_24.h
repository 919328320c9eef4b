// Functions that OrtEpApi has since ONNX Runtime 1.24, for a build against older headers: making a
// hardware device of one's own. Like OrtApi (src/runtime/ort/api_since_24.h) the table only grows
// at its end, so a position in it is as much a part of the binary interface as a name.
#pragma once
#include <onnxruntime_c_api.h>

#include <cstddef>

namespace gradus::fault {

class EpApiSince24 {
 public:
  /// False in a library that is older than 1.24.
  explicit EpApiSince24(const OrtApiBase& base)
      : table_(base.GetApi(24) == nullptr ? nullptr : base.GetApi(24)->GetEpApi()) {}
  explicit operator bool() const { return table_ != nullptr; }

  using CreateHardwareDevice = OrtStatusPtr(ORT_API_CALL*)(
      OrtHardwareDeviceType type, std::uint32_t vendor_id, std::uint32_t device_id,
      const char* vendor_name, const OrtKeyValuePairs* metadata, OrtHardwareDevice** device);
  using ReleaseHardwareDevice = void(ORT_API_CALL*)(OrtHardwareDevice* device);

  CreateHardwareDevice create_hardware_device() const { return at<CreateHardwareDevice>(16); }
  ReleaseHardwareDevice release_hardware_device() const { return at<ReleaseHardwareDevice>(17); }

 private:
  static_assert(offsetof(OrtEpApi, GetSyncIdForLastWaitOnSyncStream) == 15 * sizeof(void*),
                "version 23 ends here");

  template <class Function>
  Function at(std::size_t slot) const {
    return reinterpret_cast<Function>(reinterpret_cast<void* const*>(table_)[slot]);
  }

  const OrtEpApi* table_;
};

}  // namespace gradus::fault
