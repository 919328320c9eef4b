// Ordering faults: what a test or a drill holds. It writes a control file, which the fault provider
// reads in every process that was given its path (docs/fault-provider.md), at once and without a
// message between them.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "fault_ep/control_file.h"

namespace gradus::fault {

enum class Fault : std::uint32_t {
  kNone = 0,
  kError = 1,        // fails with the order's code and text
  kOutOfMemory = 2,  // fails as ONNX Runtime's allocator does
  kHang = 3,         // sleeps until release()
  kSpin = 4,         // burns a CPU until release()
  kNan = 5,          // runs only: floating-point outputs are all NaN
  kTruncate = 6,     // runs only: outputs with dimensions have half of the last one
  kSegv = 7,         // a write through a null pointer
  kAbort = 8,        // abort()
  kExit = 9,         // _exit(kExitCode)
};

constexpr int kExitCode = 3;
constexpr std::uint32_t kMostDevices = 8;           // that a library may present to ONNX Runtime
constexpr std::uint32_t kForever = UINT32_MAX;      // Order::count
constexpr std::uint32_t kEveryDevice = UINT32_MAX;  // Order::devices, set_gone()

/// Where a fault strikes: a session's creation, its compilation (both are parts of a load), a run.
enum class Place : std::uint32_t { kCreate = 0, kCompile = 1, kRun = 2 };

struct Order {
  Fault fault = Fault::kError;
  std::uint32_t skip = 0;                // so many occasions stay good first
  std::uint32_t count = 1;               // faults in all, or kForever
  std::uint32_t every = 1;               // 2: every second occasion, beginning with a fault, …
  std::uint32_t devices = kEveryDevice;  // bit i: device i
  std::uint32_t batch = 0;               // runs only: those of at least so many samples
  std::uint32_t code = 11;               // kError: OrtErrorCode; 11 is ORT_EP_FAIL
  std::string text = "CUDA failure 999: unknown error";  // kError: under 256 bytes
  bool sticky = false;  // kError, kOutOfMemory: from then on everything in that process fails so
};

struct Counters {
  std::uint64_t created = 0;         // sessions that got a provider
  std::uint64_t compiled = 0;        // models that were compiled
  std::uint64_t runs = 0;            // begun, whatever became of them
  std::uint64_t ok = 0;              // ended without an error, NaN and truncated ones among them
  std::uint64_t hung = 0;            // hangs begun
  std::uint64_t injected = 0;        // orders carried out
  std::uint64_t injected_at_ns = 0;  // steady clock (CLOCK_MONOTONIC) of the latest of those
  std::uint32_t last_pid = 0;        // of the process that used the provider last
};

/// One process writes orders; any may read the counters. Any thread, one at a time.
class Control {
 public:
  /// Faultless, one device, all counters 0; see ControlFile::create and ControlFile::open.
  static Result<Control> create(const std::string& path);
  static Result<Control> open(const std::string& path);

  /// Takes the place of the place's earlier order; an occasion that begins at this very moment
  /// meets either. kInvalid: `every` is 0, the code is 0 or over 31, the text is too long, `sticky`
  /// or kNan or kTruncate does not go with the rest.
  Result<void> order(Place place, const Order& order);
  /// Takes the place's order back.
  void cancel(Place place);
  /// How many of the order's faults are still to come; 0 without an order.
  std::uint32_t left(Place place) const;

  /// Bit i: device i is gone, so that loads and runs on it fail, and a process that registers the
  /// library does not see it. 0: all are back.
  void set_gone(std::uint32_t devices);
  /// How many devices the library presents to those who register it from now on. kInvalid:
  /// not 1..8.
  Result<void> set_devices(std::uint32_t count);
  /// Added to every run. kInvalid: under 0 or over an hour.
  Result<void> set_delay(std::chrono::microseconds delay);
  /// Whatever hangs now goes on, and ends well.
  void release();
  /// Takes all of that back but the number of devices. A process with a sticky fault keeps it.
  void clear();

  Counters counters() const;

 private:
  explicit Control(ControlFile file) : file_(std::move(file)) {}

  ControlFile file_;
};

}  // namespace gradus::fault
