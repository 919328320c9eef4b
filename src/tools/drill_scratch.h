// The drill's own model repository and configuration, in a folder that goes when the drill ends.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "config/model_config.h"
#include "tools/drill.h"

namespace gradus::tools {

class Scratch {
 public:
  /// The model with level 0 on the fault provider, which then runs the first CPU level's file: so
  /// both have the same answers; with the CPU levels of its own ladder; and with the policy of the
  /// options.
  /// kInvalid: the repository, the model or the options are at fault; kNotFound: the fault
  /// provider's library is not where it belongs; kInternal: nothing can be written.
  static Result<Scratch> make(const DrillOptions& options);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  /// Writes the model's configuration; servers that start from now on see it.
  /// @param target of level 0; nothing: the model's own
  Result<void> write(std::optional<std::chrono::milliseconds> target);

  const config::ModelConfig& model() const { return model_; }
  int cpu_level() const { return model_.levels[1].level; }  // the best one below level 0
  std::filesystem::path server_config() const { return folder_ / "server.yaml"; }
  std::filesystem::path control() const { return folder_ / "control"; }
  std::filesystem::path log() const { return folder_ / "server.log"; }

 private:
  explicit Scratch(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;  // empty after it was moved from
  std::string name_;              // of the model
  config::ModelConfig model_;
};

/// Where this program's binary is.
std::filesystem::path own_binary();

}  // namespace gradus::tools
