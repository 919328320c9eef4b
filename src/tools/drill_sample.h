// The request that a drill sends again and again, and what it is compared with.
#pragma once
#include <span>
#include <string>

#include "base/result.h"
#include "tools/drill_load.h"

namespace gradus::tools {

/// Made-up inputs for the model's signature, sent in binary, and each level's answer to them.
class Sample {
 public:
  /// Asks a healthy server: for metadata, for a size of the model's free dimensions that it can run
  /// with, and for the levels' answers.
  /// @param levels those that answer @param cpu_level the one that is right by definition
  /// @param tolerance of their answers; level 0's beside the CPU level's too
  /// kInvalid: no input could be made up; kUnavailable: a level does not answer; kInternal: level 0
  /// does not agree with the CPU level.
  static Result<Sample> take(std::uint16_t port, const std::string& model,
                             std::span<const int> levels, int cpu_level, double tolerance);

  /// Any level may answer.
  LoadPlan plan(std::uint16_t port) const;
  /// That level alone may.
  LoadPlan plan(std::uint16_t port, int level) const;

 private:
  std::string model_;
  std::string inputs_;   // the JSON of the inputs
  std::string tensors_;  // their bytes
  std::map<int, RightAnswer> right_;
};

}  // namespace gradus::tools
