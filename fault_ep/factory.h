// What the library registers with ONNX Runtime: devices of type GPU that do not exist, and a
// provider for each session that asks for one.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <memory>
#include <vector>

#include "fault_ep/control_file.h"
#include "fault_ep/ep_api_since_24.h"

namespace gradus::fault {

class Factory : public OrtEpFactory {
 public:
  /// @param api not older than 1.24
  Factory(std::shared_ptr<ControlFile> control, EpApiSince24 api);
  ~Factory();
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;

 private:
  static const char* ORT_API_CALL get_name(const OrtEpFactory* self) noexcept;
  static const char* ORT_API_CALL get_vendor(const OrtEpFactory* self) noexcept;
  static std::uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory* self) noexcept;
  static const char* ORT_API_CALL get_version(const OrtEpFactory* self) noexcept;
  static OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* self,
                                                       const OrtHardwareDevice* const* hardware,
                                                       std::size_t hardware_count,
                                                       OrtEpDevice** devices, std::size_t most,
                                                       std::size_t* count) noexcept;
  static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self,
                                           const OrtHardwareDevice* const* hardware,
                                           const OrtKeyValuePairs* const* metadata,
                                           std::size_t count, const OrtSessionOptions* options,
                                           const OrtLogger* logger, OrtEp** ep) noexcept;
  static void ORT_API_CALL release_ep(OrtEpFactory* self, OrtEp* ep) noexcept;
  static OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* self, const OrtMemoryInfo* info,
                                                  const OrtKeyValuePairs* options,
                                                  OrtAllocator** allocator) noexcept;
  static void ORT_API_CALL release_allocator(OrtEpFactory* self, OrtAllocator* allocator) noexcept;
  static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* self,
                                                      OrtDataTransferImpl** transfer) noexcept;
  static bool ORT_API_CALL is_stream_aware(const OrtEpFactory* self) noexcept;

  OrtEpDevice* present(std::uint32_t number);
  OrtEp* provider_on(std::uint32_t devices, const OrtSessionOptions* options) const;

  const std::shared_ptr<ControlFile> control_;  // of sessions without one of their own
  const EpApiSince24 api_;
  std::vector<OrtHardwareDevice*> hardware_;
};

}  // namespace gradus::fault
