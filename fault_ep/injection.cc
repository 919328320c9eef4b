#include "fault_ep/injection.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

namespace gradus::fault {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kRuntimeException = 6;  // ORT_RUNTIME_EXCEPTION, as the CPU's allocator
constexpr std::uint32_t kEpFail = 11;           // ORT_EP_FAIL

// What stays with this process until it ends. The library is never unmapped (CMakeLists.txt), so
// this is not made anew when it is registered again.
class StickyFault {
 public:
  std::optional<Failure> get() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void set(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

StickyFault& sticky_fault() {
  static StickyFault fault;
  return fault;
}

// Takes one, if there is one.
bool take(Word& supply) {
  std::uint32_t left = supply;
  while (left != 0) {
    if (left == kForever || supply.compare_exchange_weak(left, left - 1)) return true;
  }
  return false;
}

bool is_due(OrderWords& order) {
  if (take(order.skip)) return false;
  const std::uint32_t every = order.every;
  if (every > 1 && order.turn++ % every != 0) return false;
  return take(order.count);
}

std::string text_of(const OrderWords& order) {
  char bytes[kTextBytes];
  for (std::size_t i = 0; i < order.text.size(); ++i) {
    const std::uint64_t part = order.text[i];
    std::memcpy(bytes + i * sizeof part, &part, sizeof part);
  }
  bytes[kTextBytes - 1] = '\0';
  return bytes;
}

void hang(Layout& control, bool spinning) {
  const std::uint32_t before = control.releases;
  ++control.hung;
  while (control.releases == before) {
    if (!spinning) std::this_thread::sleep_for(microseconds(500));
  }
}

[[noreturn]] __attribute__((no_sanitize("undefined"))) void die_of_segv() {
  volatile int* volatile nowhere = nullptr;  // volatile: the compiler may not leave the write out
  *nowhere = 1;  // NOLINT(clang-analyzer-core.NullDereference): it is the point
  std::abort();
}

Verdict failing(const OrderWords& order, Failure failure) {
  if (order.sticky != 0) sticky_fault().set(failure);
  return {.failure = std::move(failure)};
}

Verdict carry_out(Layout& control, const OrderWords& order, Fault fault) {
  ++control.injected;
  // Not src/base's clock: this library is no part of the server.
  control.injected_at_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  switch (fault) {
    case Fault::kError:
      return failing(order, {order.code, text_of(order)});
    case Fault::kOutOfMemory:
      return failing(order, {kRuntimeException,
                             "Failed to allocate memory for requested buffer of size 1073741824"});
    case Fault::kHang:
    case Fault::kSpin:
      hang(control, fault == Fault::kSpin);
      return {};
    case Fault::kNan:
    case Fault::kTruncate:
      return {.outputs = fault};
    case Fault::kSegv:
      die_of_segv();
    case Fault::kAbort:
      std::abort();
    case Fault::kExit:
      _exit(kExitCode);
    case Fault::kNone:
      break;
  }
  return {};  // a number that this version does not know
}

}  // namespace

Verdict strike(Layout& control, Place place, std::uint32_t devices, std::int64_t samples) {
  control.last_pid = static_cast<std::uint32_t>(getpid());
  if (place == Place::kRun) {
    if (const std::uint32_t delay = control.delay_us) {
      std::this_thread::sleep_for(microseconds(delay));
    }
  }
  if (const std::uint32_t gone = control.gone & devices) {
    return {.failure = Failure{kEpFail, "device " + std::to_string(std::countr_zero(gone)) +
                                            " is gone: CUDA failure 100: no CUDA-capable device "
                                            "is detected"}};
  }
  if (auto failure = sticky_fault().get()) return {.failure = std::move(failure)};
  OrderWords& order = control.orders.at(static_cast<std::size_t>(place));
  const auto fault = static_cast<Fault>(order.fault.load());
  if (fault == Fault::kNone || (order.devices & devices) == 0) return {};
  if (place == Place::kRun && samples < control.run_batch) return {};
  if (!is_due(order)) return {};
  return carry_out(control, order, fault);
}

}  // namespace gradus::fault
