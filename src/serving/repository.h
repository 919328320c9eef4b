// What lies in the model repositories: `<root>/<model>/<version>/model*.onnx` and
// `<root>/<model>/gradus.yaml`. Reads folders and configuration only; loads nothing.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/faults.h"
#include "config/model_config.h"
#include "config/server_config.h"

namespace gradus::serving {

/// What one version of a model is configured by.
struct ConfigSource {
  std::filesystem::path model_folder;    // holds gradus.yaml, config.pbtxt
  std::filesystem::path version_folder;  // `<model_folder>/<version>`
  std::optional<std::string> config;     // in place of config.pbtxt: its form as JSON
};
using ReadConfig = std::function<config::Loaded<config::ModelConfig>(const ConfigSource&,
                                                                     const config::ServerConfig&)>;

struct ModelFolder {
  std::string name;
  std::string version;          // the highest number there; "" when there is none
  std::filesystem::path files;  // the version's folder
  config::ModelConfig config;
  std::vector<std::string> faults;  // why it can't be served; empty: nothing known against it
};

/// Every sub-folder of every root that does not start with a dot, by name. A name found in two
/// roots is a fault of that model.
/// @return kInvalid when a root is not a readable folder
Result<std::vector<ModelFolder>> scan_repositories(const config::ServerConfig& server);

/// UTF-8 without backslash and control characters: others could not be shown or asked for in every
/// encoding.
bool is_model_name(const std::string& name);

}  // namespace gradus::serving
