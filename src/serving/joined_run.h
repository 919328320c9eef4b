// Several requests as one run of a level: inputs joined along the batch dimension, padded where
// their lengths differ, and each one's outputs given back.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "batch/padding.h"
#include "batch/split.h"
#include "serving/model.h"
#include "tensor/tensor.h"

namespace gradus::serving {

/// One request of a joined run.
struct Part {
  runtime::RunInputs inputs;
  batch::Share share;
};

/// Each input of the parts, joined of them all.
/// @param parts at least one, of one batch::Fit::group
/// @return kUnavailable: no memory for them
Result<std::vector<Tensor>> join_inputs(const LevelRuntime& level, const batch::Padding& padding,
                                        std::span<const Part> parts);

/// Each part's outputs.
/// @param wanted indices of the level's outputs, which are `outputs`
/// @return kUnavailable: they do not follow the batch
Result<std::vector<std::vector<Tensor>>> split_outputs(const LevelRuntime& level,
                                                       const batch::Padding& padding,
                                                       std::span<const Part> parts,
                                                       std::span<const std::size_t> wanted,
                                                       std::span<const Tensor> outputs);

/// Both, and the run between them.
/// @param wanted indices of the level's outputs
/// @param stop as Backend::run
/// @return each part's outputs; errors as LevelRuntime::run, and kUnavailable for outputs that do
/// not follow the batch
Result<std::vector<std::vector<Tensor>>> run_joined(const LevelRuntime& level,
                                                    const batch::Padding& padding,
                                                    std::span<const Part> parts,
                                                    std::span<const std::size_t> wanted,
                                                    runtime::Stop* stop = nullptr);

}  // namespace gradus::serving
