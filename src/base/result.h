// Expected failures as values: one error type, few codes. A code exists only where a caller acts
// differently on it; everything else is said in the text, which names thing, value and bound.
#pragma once
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace gradus {

enum class Code {
  kInvalid,      // the caller's fault; the same call fails again
  kNotFound,     // no such model, version or path
  kOverloaded,   // refused for want of room; later it may work
  kDeadline,     // the deadline passed first
  kCancelled,    // nobody waits for it any more
  kUnavailable,  // nothing that may answer can answer now
  kInternal,     // our fault, or a backend's
  kWorkerLost,   // the worker that ran it was lost; the run may be why
};

struct Error {
  Code code = Code::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace gradus
