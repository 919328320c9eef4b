// Shared by the tests of configurations: short ways to load, and what a full folder holds.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "config/load.h"

namespace gradus::config {

inline const VariantFiles kAllFiles{true, true, true, true};

/// A file of its own, removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(std::string_view text, const char* name = "gradus.yaml") {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "gradus-config-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no scratch folder";
    folder_ = pattern;
    path_ = folder_ / name;
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

inline Loaded<ModelConfig> parse(std::string_view text, const ServerConfig& server = {},
                                 const VariantFiles& files = kAllFiles) {
  return parse_model_config(text, "m", files, server);
}

inline std::string lines(const Faults& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

/// The config of a text that must load.
inline ModelConfig loaded(std::string_view text, const ServerConfig& server = {},
                          const VariantFiles& files = kAllFiles) {
  const auto config = parse(text, server, files);
  EXPECT_TRUE(config) << text << "\n" << (config ? "" : lines(config.error()));
  return config ? *config : ModelConfig{};
}

inline Faults faults_of(std::string_view text, const ServerConfig& server = {},
                        const VariantFiles& files = kAllFiles) {
  const auto config = parse(text, server, files);
  return config ? Faults{} : config.error();
}

template <class Config>
std::string printed(const Config& config) {
  std::ostringstream out;
  print_effective(out, config);
  return out.str();
}

inline std::vector<std::string> names_of(const std::vector<ProviderConfig>& providers) {
  std::vector<std::string> names;
  for (const ProviderConfig& provider : providers) names.push_back(provider.name);
  return names;
}

inline ServerConfig with_providers(std::vector<std::string> names) {
  ServerConfig server;
  server.providers = std::move(names);
  return server;
}

}  // namespace gradus::config
