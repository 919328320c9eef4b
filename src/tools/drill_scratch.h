// The drill's own model repository and configuration, in a folder that goes when the drill ends.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "config/model_config.h"
#include "config/server_config.h"
#include "tools/drill.h"

namespace gradus::tools {

inline constexpr const char* kFaultProvider = "FaultExecutionProvider";

class Scratch {
 public:
  /// The model with the CPU levels of its own ladder, with the policy of the options, and with
  /// level 0 on the options' provider. The fault provider runs the first CPU level's file, so that
  /// both have the same answers; any other runs level 0's own. kInvalid: the repository, the model
  /// or the options are at fault; kNotFound: the fault provider's library is not where it belongs;
  /// kInternal: nothing can be written.
  static Result<Scratch> make(const DrillOptions& options);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  /// Writes the configurations; servers that start from now on see them.
  /// @param target of level 0; nothing: the model's own
  /// @param crash_loop whether workers that keep dying are a crash loop, with a pause of 2 s
  Result<void> write(std::optional<std::chrono::milliseconds> target, bool crash_loop);

  /// Takes the provider's library, or the model's files, out of a running server's reach, and back.
  Result<void> hide_library() { return hide(link_to_library()); }
  Result<void> hide_model() { return hide(version_link()); }
  void show_all();

  bool on_fault_provider() const {
    return model_.levels.front().providers.front().name == kFaultProvider;
  }
  bool has_library() const { return !provider_file_.empty(); }  // of level 0's provider
  const config::ModelConfig& model() const { return model_; }
  int cpu_level() const { return model_.levels[1].level; }  // the best one below level 0
  std::filesystem::path server_config() const { return folder_ / "server.yaml"; }
  std::filesystem::path control() const { return folder_ / "control"; }
  std::filesystem::path log() const { return folder_ / "server.log"; }
  std::filesystem::path link_to_library() const { return folder_ / "provider.so"; }
  std::filesystem::path version_link() const { return folder_ / "models" / name_ / version_; }

 private:
  explicit Scratch(std::filesystem::path folder) : folder_(std::move(folder)) {}
  static Result<void> hide(const std::filesystem::path& link);

  std::filesystem::path folder_;         // empty after it was moved from
  std::filesystem::path provider_file_;  // what link_to_library() leads to
  std::filesystem::path files_;          // what version_link() leads to
  std::string name_;                     // of the model
  std::string version_;
  config::ServerConfig server_;
  config::ModelConfig model_;
};

/// Where this program's binary is.
std::filesystem::path own_binary();

}  // namespace gradus::tools
