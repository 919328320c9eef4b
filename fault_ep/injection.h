// Carrying orders out: each place of the provider asks here what is to go wrong with it now.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fault_ep/control.h"

namespace gradus::fault {

struct Failure {
  std::uint32_t code = 0;  // OrtErrorCode
  std::string text;
};

struct Verdict {
  std::optional<Failure> failure;  // fail with this instead of going on
  Fault outputs = Fault::kNone;    // or spoil the outputs: kNan, kTruncate
};

/// What happens at `place` now, for a session on `devices` (bit i: device i), to so many samples.
/// Waits where it shall take longer or hang, and does not come back where the process shall die. A
/// sticky fault outlives every session and the library's registration: like a CUDA context's, it is
/// the process's. Any thread.
Verdict strike(Layout& control, Place place, std::uint32_t devices, std::int64_t samples = 1);

}  // namespace gradus::fault
