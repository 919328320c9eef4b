#include "config/load.h"

#include <cstdlib>

#include "config/provider_names.h"
#include "config/tables.h"

namespace gradus::config {
namespace {

/// `http.port`, `8000` -> {http: {port: 8000}}.
Value nested(std::string_view key, Value value) {
  const std::size_t dot = key.find('.');
  Value map = Value::map();
  if (dot == std::string_view::npos) {
    map.add(std::string(key), std::move(value));
  } else {
    map.add(std::string(key.substr(0, dot)), nested(key.substr(dot + 1), std::move(value)));
  }
  return map;
}

Value flag_value(const FlagValue& flag) {
  if (flag.values.size() == 1) return Value::plain(flag.values[0]);
  Value list = Value::list();
  for (const std::string& text : flag.values) list.items.push_back(Value::plain(text));
  return list;
}

/// Limits the ladder to the process's providers and drops what the default ladder lost by that.
void limit_ladder(ModelConfig& config, const ServerConfig& server, bool is_default) {
  if (!server.providers) return;
  limit_providers(config.levels, *server.providers);
  if (is_default) {
    std::erase_if(config.levels, [](const LevelConfig& level) { return level.providers.empty(); });
  }
}

std::string no_level(const VariantFiles& files) {
  if (files.model || files.fp16 || files.int8 || files.small) {
    return "no level: --providers leaves none for the files in the version's folder";
  }
  return "no level: the version's folder holds no model.onnx, model.fp16.onnx, model.int8.onnx or "
         "model.small.onnx";
}

Loaded<ModelConfig> read_model(const std::optional<Value>& tree, std::string_view name,
                               const VariantFiles& files, const ServerConfig& server,
                               Faults faults) {
  if (!tree) return tl::unexpected(std::move(faults));
  Reader reader(name, faults);
  for (const auto& [provider, path] : server.provider_libraries) {
    reader.extra_providers.push_back(provider);
  }
  const ProviderOrder order = provider_order(server.providers, reader.extra_providers);
  ModelConfig config;
  config.levels = default_levels(files, order.gpu, order.cpu);
  read_fields(*tree, model_fields(), reader, config);

  const bool is_default = tree->find("levels") == nullptr;
  if (!is_default && tree->find("default_levels") != nullptr) {
    reader.fault("default_levels", "cannot stand beside levels, which is the whole ladder");
  }
  limit_ladder(config, server, is_default);
  if (is_default && config.levels.empty()) reader.fault("", no_level(files));
  config.wants_gpu = false;
  for (const LevelConfig& level : config.levels) config.wants_gpu |= is_gpu_level(level);

  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return config;
}

}  // namespace

Loaded<ServerConfig> load_server_config(const std::optional<std::filesystem::path>& file,
                                        const std::optional<std::string>& ort_providers,
                                        const std::vector<FlagValue>& flags) {
  Faults faults;
  ServerConfig config;
  const std::optional<Value> tree = file ? load_yaml(*file, faults) : Value{};
  const std::string name = file ? file->string() : "";
  Reader reader(name, faults);
  if (tree) read_fields(*tree, server_fields(), reader, config);

  bool providers_said = !tree || tree->find("providers") != nullptr;
  for (const FlagValue& flag : flags) {
    Reader flag_reader(name, faults, flag.flag);
    flag_reader.extra_providers = reader.extra_providers;
    read_fields(nested(flag.key, flag_value(flag)), server_fields(), flag_reader, config);
    providers_said |= flag.key == "providers";
  }
  if (ort_providers && !providers_said) {
    Reader variable_reader(name, faults, "ORT_PROVIDERS");
    variable_reader.extra_providers = reader.extra_providers;
    read_provider_list(Value::plain(*ort_providers), variable_reader, config.providers);
  }
  if (tree && config.model_repositories.empty() && faults.empty()) {
    faults.push_back(
        "no model repository: give --model-repository DIR, or model_repositories in the --config "
        "file");
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return config;
}

std::optional<std::string> ort_providers_from_environment() {
  const char* const value = std::getenv("ORT_PROVIDERS");
  if (value == nullptr) return std::nullopt;
  return value;
}

Loaded<ModelConfig> load_model_config(const std::filesystem::path& model_folder,
                                      const VariantFiles& files, const ServerConfig& server) {
  const std::filesystem::path file = model_folder / "gradus.yaml";
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(file, error).type();
  Faults faults;
  const std::optional<Value> tree =
      kind == std::filesystem::file_type::not_found ? Value{} : load_yaml(file, faults);
  return read_model(tree, file.string(), files, server, std::move(faults));
}

Loaded<ModelConfig> parse_model_config(std::string_view text, std::string_view shown_name,
                                       const VariantFiles& files, const ServerConfig& server) {
  Faults faults;
  const std::optional<Value> tree = parse_yaml(text, shown_name, faults);
  return read_model(tree, shown_name, files, server, std::move(faults));
}

void print_effective(std::ostream& out, const ServerConfig& config) {
  out << yaml_text(show_fields(server_fields(), config));
}

void print_effective(std::ostream& out, const ModelConfig& config) {
  out << yaml_text(show_fields(model_fields(), config));
}

}  // namespace gradus::config
