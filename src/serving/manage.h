// What clients may ask of the models as a whole, and what they are shown of them: the index, loads
// and unloads, statistics. Names and meanings are those of Triton's extensions of the protocol.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gradus::serving {

enum class VersionState { kLoading, kReady, kUnavailable, kUnloading };
std::string_view to_string(VersionState state);  // `LOADING`, …

/// One version of a model; a model that has none to show is one entry without a version.
struct IndexEntry {
  std::string name;
  std::string version;
  VersionState state = VersionState::kUnavailable;
  std::string reason;  // "": nothing to say
};

/// What is loaded: the model's folder as it is now, or with other configuration or files.
struct LoadModel {
  std::string name;
  std::optional<std::string> config;         // in place of config.pbtxt: its form as JSON
  std::map<std::string, std::string> files;  // path below the model's folder -> bytes; not beside
                                             // the folder's own files, and needs `config`
};

/// Called once, from any thread, when the load or unload has come to its end.
/// kInvalid: it could not be loaded, and what served before still serves, or what was asked for
/// makes no sense; kNotFound: no such model to load; kUnavailable: not in this mode, or not now.
using Managed = std::function<void(Result<void>)>;

struct DurationSum {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
};

/// Runs that joined so many samples.
struct BatchStatistics {
  std::uint64_t batch_size = 1;
  DurationSum compute_input;
  DurationSum compute_infer;
  DurationSum compute_output;
};

struct LevelStatistics {
  int level = 0;
  std::string name;
  std::uint64_t inference_count = 0;  // samples
  std::uint64_t execution_count = 0;  // runs
  DurationSum success;                // requests that it answered, from arrival to answer
  DurationSum queue;
  DurationSum compute_infer;
};

/// Since the version was loaded.
struct ModelStatistics {
  std::string name;
  std::string version;
  std::uint64_t last_inference_ms = 0;  // since 1970; 0: none yet
  std::uint64_t inference_count = 0;    // samples
  std::uint64_t execution_count = 0;    // runs
  DurationSum success;                  // requests, from arrival to answer
  DurationSum fail;
  DurationSum queue;
  DurationSum compute_input;
  DurationSum compute_infer;
  DurationSum compute_output;
  std::vector<BatchStatistics> batches;  // ascending by size
  std::vector<LevelStatistics> levels;
};

}  // namespace gradus::serving
