#include "config/load.h"

#include <cstdlib>

#include "config/provider_names.h"
#include "config/tables.h"
#include "config/tier.h"

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

// No request has a priority above these; of all layers together, since each may change one of them.
void check_priorities(const ModelConfig& config, Reader& reader) {
  const bool has_levels = config.priority_levels > 0;
  const std::uint64_t most = has_levels ? config.priority_levels : kLastPriority;
  const std::string must =
      has_levels ? "must be at most priority_levels = " + std::to_string(most)
                 : "must be at most " + std::to_string(most) + ", without priority_levels";
  if (has_levels && config.default_priority > most) {
    reader.refuse_key("default_priority", Value::plain(std::to_string(config.default_priority)),
                      must);
  }
  const Reader::Step step(reader, "queue_policies");
  for (const auto& [priority, policy] : config.queue_policies.by_priority) {
    if (priority > most) reader.fault(std::to_string(priority), must);
  }
}

std::string no_level(const VariantFiles& files) {
  if (files.any()) {
    return "no level: --providers leaves none for the files in the version's folder";
  }
  return "no level: the version's folder holds no model.onnx, model.fp16.onnx, model.int8.onnx or "
         "model.small.onnx";
}

/// A model's own file, empty where there is none. Opening a FIFO could wait for good.
std::optional<Value> load_own(const std::filesystem::path& file, Faults& faults) {
  std::error_code error;
  if (std::filesystem::symlink_status(file, error).type() ==
      std::filesystem::file_type::not_found) {
    return Value{};
  }
  const bool waits =
      std::filesystem::is_fifo(file, error) || std::filesystem::is_socket(file, error);
  if (!waits) return load_yaml(file, faults);
  faults.push_back(file.string() + ": cannot be read: must be a regular file");
  return std::nullopt;
}

/// One text of keys.
struct Layer {
  std::string_view name;
  std::optional<Value> tree;  // nothing: no YAML, as the faults say
};

/// @param layers at least one; the later ones win
Loaded<ModelConfig> read_model(const std::vector<Layer>& layers,
                               const std::function<void(ModelConfig&)>& change,
                               const VariantFiles& files, const ServerConfig& server,
                               Faults faults) {
  for (const Layer& layer : layers) {
    if (!layer.tree) return tl::unexpected(std::move(faults));
  }
  std::vector<std::string> extra;
  for (const auto& [provider, path] : server.provider_libraries) extra.push_back(provider);
  const ProviderOrder order = provider_order(server.providers, extra);
  ModelConfig config;
  config.levels = default_levels(files, order.gpu, order.cpu);
  if (change) change(config);

  bool is_default = true;
  for (const Layer& layer : layers) {
    Reader reader(layer.name, faults);
    reader.extra_providers = extra;
    read_fields(*layer.tree, model_fields(), reader, config);
    if (layer.tree->find("levels") == nullptr) continue;
    is_default = false;
    if (layer.tree->find("default_levels") != nullptr) {
      reader.fault("default_levels", "cannot stand beside levels, which is the whole ladder");
    }
  }
  limit_ladder(config, server, is_default);
  Reader whole(layers.back().name, faults);
  if (is_default && config.levels.empty()) {
    faults.push_back(
        (files.folder.empty() ? std::string(layers.back().name) : files.folder.string()) + ": " +
        no_level(files));
  }
  check_priorities(config, whole);
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

std::string model_name_from_environment() {
  const char* const value = std::getenv("MODEL_NAME");
  return value == nullptr ? "" : value;
}

Loaded<ModelConfig> load_model_config(const std::filesystem::path& model_folder,
                                      const VariantFiles& files, const ServerConfig& server,
                                      const Base& base) {
  const std::filesystem::path file = model_folder / "gradus.yaml";
  const std::string name = file.string();
  Faults faults;
  std::vector<Layer> layers;
  if (!base.yaml.empty()) {
    layers.push_back({base.shown_name, parse_yaml(base.yaml, base.shown_name, faults)});
  }
  layers.push_back({name, load_own(file, faults)});
  return read_model(layers, base.change, files, server, std::move(faults));
}

Loaded<ModelConfig> parse_model_config(std::string_view text, std::string_view shown_name,
                                       const VariantFiles& files, const ServerConfig& server) {
  Faults faults;
  std::vector<Layer> layers{{shown_name, parse_yaml(text, shown_name, faults)}};
  return read_model(layers, {}, files, server, std::move(faults));
}

void print_effective(std::ostream& out, const ServerConfig& config) {
  out << yaml_text(show_fields(server_fields(), config));
}

void print_effective(std::ostream& out, const ModelConfig& config) {
  out << yaml_text(show_fields(model_fields(), config));
}

}  // namespace gradus::config
