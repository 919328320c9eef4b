// One request that is larger than a batch may be, as several runs of a level. Beside the whole
// outputs it needs memory for one part only, however many there are.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "serving/model.h"
#include "tensor/tensor.h"

namespace gradus::serving {

/// Runs at most `max_size` samples at a time, one run after the other.
/// @param inputs each with `samples` rows
/// @param max_size >= 1
/// @param wanted indices of the level's outputs
/// @param stop as Backend::run; ends it between parts too
/// @return the outputs of all parts behind each other; errors as LevelRuntime::run, and
///   kUnavailable: they do not follow the parts, or there is no memory for them
Result<std::vector<Tensor>> run_in_parts(const LevelRuntime& level,
                                         const runtime::RunInputs& inputs, std::uint32_t samples,
                                         std::uint32_t max_size,
                                         std::span<const std::size_t> wanted,
                                         runtime::Stop* stop = nullptr);

}  // namespace gradus::serving
