// A configuration is refused as a whole and every fault is told at once, one line each:
// `demo/models/x/gradus.yaml: levels[1].max_batch_size = 0: must be in [1, 1024]`.
#pragma once
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/result.h"

namespace gradus::config {

/// One line each: file (or flag), key path, value, and what it must be. Never empty where returned.
using Faults = std::vector<std::string>;

template <class T>
using Loaded = tl::expected<T, Faults>;

/// All lines in one, for a place that holds a single reason; kInvalid.
inline Error to_error(const Faults& faults) {
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : "; ") + fault;
  return {Code::kInvalid, text};
}

}  // namespace gradus::config
