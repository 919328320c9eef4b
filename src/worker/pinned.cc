#include "worker/pinned.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "base/log.h"

namespace gradus::worker {
namespace {

constexpr unsigned int kDefault = 0x00;   // cudaHostRegisterDefault
constexpr unsigned int kReadOnly = 0x08;  // cudaHostRegisterReadOnly

// Of CUDA's runtime API; a cudaError_t is an int, 0 is success.
struct Cuda {
  int (*host_register)(void*, std::size_t, unsigned int) = nullptr;
  int (*host_unregister)(void*) = nullptr;
  int (*last_error)() = nullptr;  // and forgets it, so that the provider does not meet it
};

// Nothing is loaded for this: only what a provider has brought is of use. Never unloaded.
Cuda find_cuda() {
  for (const char* const name : {"libcudart.so.13", "libcudart.so.12"}) {
    void* const library = dlopen(name, RTLD_NOLOAD | RTLD_NOW);
    if (library == nullptr) continue;
    Cuda cuda;
    cuda.host_register =
        reinterpret_cast<decltype(cuda.host_register)>(dlsym(library, "cudaHostRegister"));
    cuda.host_unregister =
        reinterpret_cast<decltype(cuda.host_unregister)>(dlsym(library, "cudaHostUnregister"));
    cuda.last_error =
        reinterpret_cast<decltype(cuda.last_error)>(dlsym(library, "cudaGetLastError"));
    if (cuda.host_register != nullptr && cuda.host_unregister != nullptr &&
        cuda.last_error != nullptr) {
      return cuda;
    }
  }
  return {};
}

// Asked for only after a CUDA session has been loaded, so that the answer stays right.
const Cuda& cuda() {
  static const Cuda found = find_cuda();
  return found;
}

void tell_once(int error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  log::debug("shared memory is not page-locked, copies to the device are slower",
             {{"cuda_error", std::to_string(error)}});
}

}  // namespace

bool copies_with_cuda(std::string_view provider) {
  return provider == "CUDAExecutionProvider" || provider == "TensorrtExecutionProvider";
}

Pinned::Pinned(std::span<const std::byte> memory, Access access) {
  if (memory.empty() || cuda().host_register == nullptr) return;
  const unsigned int flags = access == Access::kRead ? kReadOnly : kDefault;
  void* const at = const_cast<std::byte*>(memory.data());
  if (const int error = cuda().host_register(at, memory.size(), flags); error != 0) {
    cuda().last_error();
    tell_once(error);
    return;
  }
  memory_ = memory;
}

Pinned::~Pinned() {
  if (memory_.empty()) return;
  if (cuda().host_unregister(const_cast<std::byte*>(memory_.data())) != 0) cuda().last_error();
}

}  // namespace gradus::worker
