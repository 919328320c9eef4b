#include "serving/repository.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "config/load.h"

namespace gradus::serving {
namespace {

namespace fs = std::filesystem;

// A version is a number above 0 without leading zeros, as Triton has it.
std::optional<std::uint64_t> version_number(const std::string& name) {
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stop != end || number == 0 || name[0] == '0') return std::nullopt;
  return number;
}

std::optional<fs::path> newest_version(const fs::path& model) {
  std::optional<fs::path> newest;
  std::uint64_t highest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(model, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto number = version_number(entry->path().filename().string());
    std::error_code ignored;
    if (number && *number > highest && entry->is_directory(ignored)) {
      highest = *number;
      newest = entry->path();
    }
  }
  return newest;
}

ModelFolder read_model(const fs::path& path, const config::ServerConfig& server) {
  ModelFolder model;
  model.name = path.filename().string();
  if (!is_model_name(model.name)) {
    model.faults.push_back(path.string() +
                           ": no name for a model: must be UTF-8 without backslash and control "
                           "characters");
    return model;
  }
  const auto version = newest_version(path);
  if (!version) {
    model.faults.push_back(path.string() + ": has no version folder (1, 2, …)");
    return model;
  }
  model.version = version->filename().string();
  model.files = *version;
  auto config = config::load_model_config(path, config::find_variants(*version), server);
  if (!config) {
    model.faults = std::move(config.error());
    return model;
  }
  if (config->levels.empty()) {
    model.faults.push_back(version->string() +
                           ": has none of model.onnx, model.fp16.onnx, model.int8.onnx, "
                           "model.small.onnx that may run");
  }
  model.config = std::move(*config);
  return model;
}

}  // namespace

bool is_model_name(const std::string& name) {
  return valid_utf8_prefix(name) == name.size() && std::ranges::none_of(name, [](char c) {
           return c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

Result<std::vector<ModelFolder>> scan_repositories(const config::ServerConfig& server) {
  std::map<std::string, ModelFolder> found;
  for (const std::string& root : server.model_repositories) {
    std::error_code error;
    fs::directory_iterator entry(root, error);
    if (error) {
      return fail(Code::kInvalid, "model repository '" + root + "': " + error.message());
    }
    for (const fs::directory_iterator end; entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.') || !entry->is_directory(ignored)) continue;
      if (version_number(name) && config::find_variants(entry->path()).model) {
        return fail(Code::kInvalid, "model repository '" + root + "': holds version folder " +
                                        name + ": it looks like a model, give the folder above it");
      }
      const auto [at, added] = found.try_emplace(name, ModelFolder{});
      if (added) {
        at->second = read_model(entry->path(), server);
      } else {
        at->second.faults.push_back(entry->path().string() +
                                    ": this model is in another repository as well");
      }
    }
    if (error) return fail(Code::kInvalid, "model repository '" + root + "': " + error.message());
  }
  std::vector<ModelFolder> models;
  for (auto& [name, model] : found) models.push_back(std::move(model));
  return models;
}

}  // namespace gradus::serving
