// From files, flags and environment to checked structs, and back to text. Values are refused, never
// clamped; what is printed loads again to the same values, but for URLs' secrets, which it masks.
// Pure but for reading the named files.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"
#include "config/model_config.h"
#include "config/server_config.h"

namespace gradus::config {

/// A flag of the command line that sets a key of ServerConfig.
struct FlagValue {
  std::string flag;                 // as faults show it: `--http-port`
  std::string key;                  // as in the file: `http.port`
  std::vector<std::string> values;  // one; any number for `model_repositories`
};

/// Flags over `file` over `ort_providers` over the defaults. A flag that holds a list replaces the
/// file's list. `ort_providers` is looked at only if neither flags nor file say `providers`.
/// @param file the argument of `--config`; one that cannot be read is a fault
/// @param ort_providers the variable's value; blank counts as unset
Loaded<ServerConfig> load_server_config(const std::optional<std::filesystem::path>& file,
                                        const std::optional<std::string>& ort_providers,
                                        const std::vector<FlagValue>& flags);

/// ORT_PROVIDERS of this process. Call before other threads may change the environment.
std::optional<std::string> ort_providers_from_environment();

/// MODEL_NAME, as KServe sets it; "" if unset. As above.
std::string model_name_from_environment();

/// What lies under a model's `gradus.yaml`, whose keys win.
struct Base {
  std::function<void(ModelConfig&)> change;  // of the defaults, the default ladder included
  std::string yaml;                          // keys as in `gradus.yaml`, over that
  std::string shown_name;                    // of `yaml`, in faults
};

/// A model's `gradus.yaml`; a folder without one has the default ladder.
/// @param model_folder `<root>/<model>`
/// @param files what the version's folder holds
/// @param server gives `providers` and the names in `provider_libraries`
Loaded<ModelConfig> load_model_config(const std::filesystem::path& model_folder,
                                      const VariantFiles& files, const ServerConfig& server,
                                      const Base& base = {});

/// The same from text; `shown_name` is the file's name in faults.
Loaded<ModelConfig> parse_model_config(std::string_view text, std::string_view shown_name,
                                       const VariantFiles& files, const ServerConfig& server);

/// Effective values as YAML that `--config` and `gradus.yaml` accept.
void print_effective(std::ostream& out, const ServerConfig& config);
void print_effective(std::ostream& out, const ModelConfig& config);

/// The reference page, docs/configuration.md, from the same tables.
void document(std::ostream& out);

}  // namespace gradus::config
