// The two functions by which ONNX Runtime knows a provider library (onnxruntime_ep_c_api.h).
#include <onnxruntime_cxx_api.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "fault_ep/control_file.h"
#include "fault_ep/factory.h"
#include "fault_ep/status.h"

namespace gradus::fault {
namespace {

// Nothing but the environment reaches a library before its devices are asked for.
std::shared_ptr<ControlFile> control_file() {
  const char* path = std::getenv("GRADUS_FAULT_CONTROL");
  auto file = path == nullptr || *path == '\0' ? ControlFile::in_memory() : ControlFile::open(path);
  if (!file) {
    throw Ort::Exception("GRADUS_FAULT_CONTROL: " + file.error().message, ORT_INVALID_ARGUMENT);
  }
  return std::make_shared<ControlFile>(std::move(*file));
}

}  // namespace
}  // namespace gradus::fault

// NOLINTBEGIN(readability-identifier-naming): the names are ONNX Runtime's
#define GRADUS_EXPORT extern "C" __attribute__((visibility("default")))

GRADUS_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                           OrtEpFactory** factories, std::size_t most,
                                           std::size_t* count) {
  using namespace gradus::fault;
  *count = 0;
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  const EpApiSince24 since_24(*base);
  if (api == nullptr || !since_24) {
    return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED,
                                         "the fault provider needs ONNX Runtime 1.24 or newer");
  }
  Ort::InitApi(api);
  if (most == 0) return status_of(ORT_INVALID_ARGUMENT, "no room for a factory");
  return guarded([&] {
    factories[0] = new Factory(control_file(), since_24);
    *count = 1;
  });
}

GRADUS_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<gradus::fault::Factory*>(factory);
  return nullptr;
}
// NOLINTEND(readability-identifier-naming)
