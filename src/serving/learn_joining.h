// Whether a level's requests may be joined, and how: the file's declaration says what is possible,
// a few runs show what is true. A model that mixes its samples, or to which padding makes a
// difference, is found out here and not by users.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "batch/padding.h"
#include "serving/model.h"

namespace gradus::serving {

struct Joining {
  std::optional<batch::Padding> padding;  // nothing: each request runs alone
  std::string note;                       // what is not possible, and why; "": nothing is amiss
};

/// A run that ended the level's worker.
struct LostRun {
  Error error;
  std::int64_t samples;
};

/// Runs the level up to five times, at batches and lengths of its own choice. Blocks.
/// @param pad input name to value, as configured; empty: the well-known names, with 0
/// @param size of variable dimensions that the level runs with (runtime::sample_inputs)
tl::expected<Joining, LostRun> learn_joining(const LevelRuntime& level,
                                             const std::map<std::string, double>& pad,
                                             std::int64_t size);

}  // namespace gradus::serving
