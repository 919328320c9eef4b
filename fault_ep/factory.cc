#include "fault_ep/factory.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fault_ep/injection.h"
#include "fault_ep/provider.h"
#include "fault_ep/status.h"

namespace gradus::fault {
namespace {

constexpr std::uint32_t kVendorId = 0xFA17;  // of no PCI vendor
constexpr const char* kVendor = "Gradus";
constexpr std::string_view kOptionPrefix =
    "ep.faultexecutionprovider.";  // ONNX Runtime's lower case

// The provider's own options, without the prefix.
std::unordered_map<std::string, std::string> options_of(const OrtSessionOptions* options) {
  OrtKeyValuePairs* raw = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &raw));
  std::unordered_map<std::string, std::string> own;
  for (auto& [key, value] : Ort::KeyValuePairs(raw).GetKeyValuePairs()) {
    if (key.starts_with(kOptionPrefix)) own.emplace(key.substr(kOptionPrefix.size()), value);
  }
  return own;
}

std::shared_ptr<ControlFile> opened(const std::string& path) {
  auto file = ControlFile::open(path);
  if (!file) throw Ort::Exception(file.error().message, ORT_INVALID_ARGUMENT);
  return std::make_shared<ControlFile>(std::move(*file));
}

}  // namespace

Factory::Factory(std::shared_ptr<ControlFile> control, EpApiSince24 api)
    : OrtEpFactory{}, control_(std::move(control)), api_(api) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetVendor = get_vendor;
  GetVendorId = get_vendor_id;
  GetVersion = get_version;
  GetSupportedDevices = get_supported_devices;
  CreateEp = create_ep;
  ReleaseEp = release_ep;
  CreateAllocator = create_allocator;
  ReleaseAllocator = release_allocator;
  CreateDataTransfer = create_data_transfer;
  IsStreamAware = is_stream_aware;
}

Factory::~Factory() {
  for (OrtHardwareDevice* device : hardware_) api_.release_hardware_device()(device);
}

const char* ORT_API_CALL Factory::get_name(const OrtEpFactory*) noexcept { return kProviderName; }
const char* ORT_API_CALL Factory::get_vendor(const OrtEpFactory*) noexcept { return kVendor; }
std::uint32_t ORT_API_CALL Factory::get_vendor_id(const OrtEpFactory*) noexcept {
  return kVendorId;
}
const char* ORT_API_CALL Factory::get_version(const OrtEpFactory*) noexcept { return "0.1.0"; }

OrtStatus* ORT_API_CALL Factory::get_supported_devices(OrtEpFactory* self,
                                                       const OrtHardwareDevice* const*, std::size_t,
                                                       OrtEpDevice** devices, std::size_t most,
                                                       std::size_t* count) noexcept {
  *count = 0;
  return guarded([&] {
    auto& factory = *static_cast<Factory*>(self);
    const Layout& control = **factory.control_;
    const std::uint32_t wanted = std::min(control.devices.load(), kMostDevices);
    for (std::uint32_t i = 0; i < wanted && *count < most; ++i) {
      if ((control.gone >> i & 1U) == 0) devices[(*count)++] = factory.present(i);
    }
  });
}

OrtEpDevice* Factory::present(std::uint32_t number) {
  Ort::KeyValuePairs metadata;
  metadata.Add("is_virtual", "1");  // not to be picked unasked
  OrtHardwareDevice* hardware = nullptr;
  Ort::ThrowOnError(api_.create_hardware_device()(OrtHardwareDeviceType_GPU, kVendorId, number,
                                                  kVendor, metadata, &hardware));
  hardware_.push_back(hardware);
  OrtEpDevice* device = nullptr;
  Ort::ThrowOnError(Ort::GetEpApi().CreateEpDevice(this, hardware, nullptr, nullptr, &device));
  return device;
}

OrtStatus* ORT_API_CALL Factory::create_ep(OrtEpFactory* self,
                                           const OrtHardwareDevice* const* hardware,
                                           const OrtKeyValuePairs* const*, std::size_t count,
                                           const OrtSessionOptions* options, const OrtLogger*,
                                           OrtEp** ep) noexcept {
  return guarded([&] {
    std::uint32_t devices = 0;
    for (std::size_t i = 0; i < count; ++i) {
      devices |= 1U << Ort::ConstHardwareDevice(hardware[i]).DeviceId();
    }
    *ep = static_cast<const Factory*>(self)->provider_on(devices, options);
  });
}

OrtEp* Factory::provider_on(std::uint32_t devices, const OrtSessionOptions* options) const {
  Setting setting{control_, devices};
  const Ort::ConstSessionOptions session(options);
  if (!Provider::inside_another()) {
    for (const auto& [key, value] : options_of(options)) {
      if (key != "control") {
        throw Ort::Exception("unknown option '" + key + "'; known: control", ORT_INVALID_ARGUMENT);
      }
      setting.control = opened(value);
    }
    obey(strike(**setting.control, Place::kCreate, devices));
    ++(*setting.control)->created;
  }
  return new Provider(std::move(setting), session);
}

void ORT_API_CALL Factory::release_ep(OrtEpFactory*, OrtEp* ep) noexcept {
  delete static_cast<Provider*>(ep);
}

// Tensors lie in the CPU's memory: there is nothing to allocate, copy or wait for.
OrtStatus* ORT_API_CALL Factory::create_allocator(OrtEpFactory*, const OrtMemoryInfo*,
                                                  const OrtKeyValuePairs*,
                                                  OrtAllocator** allocator) noexcept {
  *allocator = nullptr;
  return nullptr;
}

void ORT_API_CALL Factory::release_allocator(OrtEpFactory*, OrtAllocator*) noexcept {}

OrtStatus* ORT_API_CALL Factory::create_data_transfer(OrtEpFactory*,
                                                      OrtDataTransferImpl** transfer) noexcept {
  *transfer = nullptr;
  return nullptr;
}

bool ORT_API_CALL Factory::is_stream_aware(const OrtEpFactory*) noexcept { return false; }

}  // namespace gradus::fault
