// Stands for CUDA's runtime library where memory is registered with it: counts what it is asked.
#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace {

constexpr int kOk = 0;
constexpr int kNotSupported = 801;     // cudaErrorNotSupported
constexpr int kNotRegistered = 713;    // cudaErrorHostMemoryNotRegistered
constexpr unsigned int kReadOnly = 8;  // cudaHostRegisterReadOnly

std::mutex mutex;
std::map<void*, unsigned int> registered;
long ended = 0;
long wrong = 0;
bool refuses = false;

}  // namespace

extern "C" {

int cudaHostRegister(void* at, std::size_t bytes, unsigned int flags) {
  const std::lock_guard lock(mutex);
  if (refuses) return kNotSupported;
  if (bytes % 4096 != 0 || !registered.emplace(at, flags).second) ++wrong;
  return kOk;
}

int cudaHostUnregister(void* at) {
  const std::lock_guard lock(mutex);
  const bool mapped = msync(at, 4096, MS_ASYNC) == 0;
  if (registered.erase(at) == 0 || !mapped) {
    ++wrong;
    return kNotRegistered;
  }
  ++ended;
  return kOk;
}

int cudaGetLastError() { return kOk; }

void fake_cuda_refuse(int value) {
  const std::lock_guard lock(mutex);
  refuses = value != 0;
}

// 0: registered read-only; 1: others; 2: ended in good order; 3: mistakes.
long fake_cuda_count(int which) {
  const std::lock_guard lock(mutex);
  long read_only = 0;
  for (const auto& [at, flags] : registered) read_only += flags == kReadOnly;
  if (which == 0) return read_only;
  if (which == 1) return static_cast<long>(registered.size()) - read_only;
  return which == 2 ? ended : wrong;
}

}  // extern "C"
