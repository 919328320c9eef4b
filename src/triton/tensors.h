// What config.pbtxt says of inputs, outputs, the batch dimension, labels and warm-up samples.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/declared.h"
#include "tensor/dtype.h"
#include "triton/findings.h"

namespace inference {
class ModelConfig;
}

namespace gradus::triton {

struct Declarations {
  config::Declared declared;
  std::vector<config::WarmupSample> warmup;
  std::map<std::string, std::vector<std::string>> labels;  // output -> names of its indices
};

/// Whether the model agrees is seen when it is loaded (serving/declared.h).
/// @param folder the model's: label files lie in it, files of warm-up samples in its `warmup`
Declarations read_tensors(const inference::ModelConfig& message,
                          const std::filesystem::path& folder, Findings& findings);

/// A name that stays below a folder: relative, without `..`.
bool stays_below(const std::string& name);

}  // namespace gradus::triton
