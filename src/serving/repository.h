// What lies in the model repositories: `<root>/<model>/<version>/model*.onnx` with the model's
// `gradus.yaml` and `config.pbtxt` beside its versions. Reads folders and configuration only; loads
// nothing. A root may also be one model itself, as KServe mounts them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/faults.h"
#include "config/model_config.h"
#include "config/server_config.h"
#include "serving/manage.h"

namespace gradus::serving {

/// What one version of a model is configured by.
struct ConfigSource {
  std::filesystem::path model_folder;    // holds gradus.yaml, config.pbtxt
  std::filesystem::path version_folder;  // `<model_folder>/<version>`
  std::optional<std::string> config;     // in place of config.pbtxt: its form as JSON
  std::string model{};                   // its name, which need not be the folder's
};
using ReadConfig = std::function<config::Loaded<config::ModelConfig>(const ConfigSource&,
                                                                     const config::ServerConfig&)>;

/// gradus.yaml alone.
config::Loaded<config::ModelConfig> read_own_config(const ConfigSource& source,
                                                    const config::ServerConfig& server);

struct ModelVersion {
  std::uint64_t number = 0;
  std::filesystem::path files;  // the version's folder
  config::ModelConfig config;
  std::vector<std::string> faults;  // why it can't be served; empty: nothing known against it
  // Of names, sizes and times of its files and of those beside it: other ones, other stamp.
  std::uint64_t stamp = 0;

  std::string text() const { return std::to_string(number); }
};

struct ModelFolder {
  std::string name;
  std::vector<ModelVersion> versions;  // those that its policy wants; ascending
  std::vector<std::string> faults;     // why none can be served
  std::uint64_t stamp = 0;             // of all of it
  std::shared_ptr<const void> keep;    // files that are there as long as this lives

  /// Its own and its versions'.
  std::vector<std::string> all_faults() const;
};

class Repository {
 public:
  /// @param server its `model_repositories` and `model_name`, and what models' configuration needs
  Repository(config::ServerConfig server, ReadConfig read_config);

  /// Every sub-folder of every root that does not start with a dot, by name. A name found in two
  /// roots is a fault of that model.
  /// @return kInvalid when a root is not a readable folder
  Result<std::vector<ModelFolder>> scan() const;

  /// Of all its models, those that cannot be served too.
  /// @return kInvalid: as scan()
  Result<std::vector<std::string>> names() const;

  /// One model as it is now, or as `what` changes it.
  /// @return kNotFound: no such folder; kInvalid: the changes make no sense
  Result<ModelFolder> read(const LoadModel& what) const;

 private:
  struct Place {
    std::string name;
    std::filesystem::path folder;
    std::vector<std::string> faults;
  };

  Result<std::vector<Place>> places() const;
  ModelFolder read(const Place& place, const std::optional<std::string>& config) const;

  const config::ServerConfig server_;
  const ReadConfig read_config_;
};

/// UTF-8 without backslash and control characters: others could not be shown or asked for in every
/// encoding.
bool is_model_name(const std::string& name);

}  // namespace gradus::serving
