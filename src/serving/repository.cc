#include "serving/repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "config/load.h"
#include "serving/temporary_folder.h"

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

bool holds_variant(const fs::path& folder) { return config::find_variants(folder).any(); }

bool holds_file(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

// Ascending. A model without version folders whose variants lie beside its configuration has
// version 1, as models that KServe mounts.
std::map<std::uint64_t, fs::path> version_folders(const fs::path& model) {
  std::map<std::uint64_t, fs::path> versions;
  std::error_code error;
  for (fs::directory_iterator entry(model, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto number = version_number(entry->path().filename().string());
    std::error_code ignored;
    if (number && entry->is_directory(ignored)) versions.emplace(*number, entry->path());
  }
  if (versions.empty() && holds_variant(model)) versions.emplace(1, model);
  return versions;
}

bool is_model(const fs::path& folder) {
  if (holds_variant(folder) || holds_file(folder, "config.pbtxt") ||
      holds_file(folder, "gradus.yaml")) {
    return true;
  }
  const auto versions = version_folders(folder);
  return std::ranges::any_of(versions, [](const auto& one) { return holds_variant(one.second); });
}

// Order does not matter: folders are read in any.
std::uint64_t file_stamp(const fs::path& file, const fs::path& shown) {
  struct stat seen {};
  if (stat(file.c_str(), &seen) != 0) return 0;
  std::uint64_t stamp = std::hash<std::string>{}(shown.string());
  const auto part = [&stamp](auto value) {
    stamp = (stamp ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15;
    stamp ^= stamp >> 29;
  };
  part(seen.st_size);
  part(seen.st_mtim.tv_sec);
  part(seen.st_mtim.tv_nsec);
  part(seen.st_ino);
  return stamp;
}

std::uint64_t folder_stamp(const fs::path& folder) {
  std::uint64_t stamp = 0;
  std::error_code error;
  // Links to folders are not followed, but for `folder` itself: they may lead in circles.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) {
      stamp += file_stamp(entry->path(), entry->path().lexically_relative(folder));
    }
  }
  return stamp;
}

// Of what all versions share.
std::uint64_t stamp_beside_versions(const fs::path& model) {
  std::uint64_t stamp = 0;
  std::error_code error;
  for (fs::directory_iterator entry(model, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (version_number(name)) continue;
    std::error_code ignored;
    stamp += entry->is_directory(ignored) ? folder_stamp(entry->path())
                                          : file_stamp(entry->path(), name);
  }
  return stamp;
}

std::string known_versions(const std::map<std::uint64_t, fs::path>& versions) {
  std::string text;
  for (const auto& [number, folder] : versions) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

std::vector<std::uint64_t> wanted(const config::VersionPolicy& policy,
                                  const std::map<std::uint64_t, fs::path>& versions) {
  if (!policy.specific.empty()) return {policy.specific.begin(), policy.specific.end()};
  std::vector<std::uint64_t> numbers;
  numbers.reserve(versions.size());
  for (const auto& [number, folder] : versions) numbers.push_back(number);
  if (policy.latest > 0 && numbers.size() > policy.latest) {
    numbers.erase(numbers.begin(), numbers.end() - policy.latest);
  }
  return numbers;
}

// In faults, of what a client sent: it knows nothing of the folder that this lies in meanwhile.
void name_in_place_of(const std::string& folder, ModelFolder& model) {
  const std::string before = folder + "/";
  const std::string name = "model '" + model.name + "': ";
  const auto rename = [&](std::vector<std::string>& faults) {
    for (std::string& fault : faults) {
      for (std::size_t at = 0; (at = fault.find(before, at)) != fault.npos; at += name.size()) {
        fault.replace(at, before.size(), name);
      }
    }
  };
  rename(model.faults);
  for (ModelVersion& version : model.versions) rename(version.faults);
}

}  // namespace

config::Loaded<config::ModelConfig> read_own_config(const ConfigSource& source,
                                                    const config::ServerConfig& server) {
  return config::load_model_config(source.model_folder,
                                   config::find_variants(source.version_folder), server);
}

bool is_model_name(const std::string& name) {
  return valid_utf8_prefix(name) == name.size() && std::ranges::none_of(name, [](char c) {
           return c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

std::vector<std::string> ModelFolder::all_faults() const {
  std::vector<std::string> all = faults;
  for (const ModelVersion& version : versions) {
    all.insert(all.end(), version.faults.begin(), version.faults.end());
  }
  return all;
}

Repository::Repository(config::ServerConfig server, ReadConfig read_config)
    : server_(std::move(server)), read_config_(std::move(read_config)) {}

Result<std::vector<Repository::Place>> Repository::places() const {
  std::map<std::string, Place> found;
  const auto add = [&found](const std::string& name, const fs::path& folder) {
    const auto [at, added] = found.try_emplace(name, Place{name, folder, {}});
    if (!added) {
      at->second.faults.push_back(folder.string() +
                                  ": this model is in another repository as well");
    }
  };
  for (const std::string& root : server_.model_repositories) {
    if (root.find("://") != root.npos) {
      return fail(Code::kInvalid, "model repository '" + root +
                                      "': only folders are read: copy it here, or mount it");
    }
    std::error_code error;
    fs::directory_iterator entry(root, error);
    if (!error && is_model(root)) {
      const fs::path whole = fs::absolute(root, error).lexically_normal();
      const fs::path last =
          whole.has_filename() ? whole.filename() : whole.parent_path().filename();
      add(server_.model_name.empty() ? last.string() : server_.model_name, root);
      continue;
    }
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      std::error_code ignored;
      if (!name.starts_with('.') && entry->is_directory(ignored)) add(name, entry->path());
    }
    if (error) return fail(Code::kInvalid, "model repository '" + root + "': " + error.message());
  }
  std::vector<Place> all;
  for (auto& [name, place] : found) all.push_back(std::move(place));
  return all;
}

ModelFolder Repository::read(const Place& place, const std::optional<std::string>& config) const {
  ModelFolder model;
  model.name = place.name;
  model.faults = place.faults;
  if (!is_model_name(model.name)) {
    model.faults.push_back(place.folder.string() +
                           ": no name for a model: must be UTF-8 without backslash and control "
                           "characters");
    return model;
  }
  const auto folders = version_folders(place.folder);
  const std::uint64_t beside = stamp_beside_versions(place.folder);
  model.stamp = beside;
  if (folders.empty()) {
    model.faults.push_back(place.folder.string() + ": has no version folder (1, 2, …)");
    return model;
  }
  const auto read_version = [&](const fs::path& files) {
    return read_config_({place.folder, files, config, place.name}, server_);
  };
  auto newest = read_version(folders.rbegin()->second);
  if (!newest) {
    model.faults.insert(model.faults.end(), newest.error().begin(), newest.error().end());
    for (const auto& [number, files] : folders) model.stamp += number ^ folder_stamp(files);
    return model;
  }
  for (const std::uint64_t number : wanted(newest->version_policy, folders)) {
    ModelVersion version;
    version.number = number;
    const auto folder = folders.find(number);
    if (folder == folders.end()) {
      version.faults.push_back(place.folder.string() + ": version_policy wants version " +
                               version.text() + ", there is no such folder beside " +
                               known_versions(folders));
    } else {
      version.files = folder->second;
      version.stamp = beside + folder_stamp(folder->second);
      const bool is_newest = number == folders.rbegin()->first;
      auto own = is_newest ? newest : read_version(folder->second);
      if (!own) {
        version.faults = std::move(own.error());
      } else if (own->levels.empty()) {
        version.faults.push_back(folder->second.string() +
                                 ": has none of model.onnx, model.fp16.onnx, model.int8.onnx, "
                                 "model.small.onnx that may run");
      } else {
        version.config = std::move(*own);
      }
    }
    model.stamp += number ^ version.stamp;
    model.versions.push_back(std::move(version));
  }
  return model;
}

Result<std::vector<ModelFolder>> Repository::scan() const {
  const auto all = places();
  if (!all) return tl::unexpected(all.error());
  std::vector<ModelFolder> models;
  models.reserve(all->size());
  for (const Place& place : *all) models.push_back(read(place, std::nullopt));
  return models;
}

Result<std::vector<std::string>> Repository::names() const {
  const auto all = places();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string> names;
  names.reserve(all->size());
  for (const Place& place : *all) names.push_back(place.name);
  return names;
}

Result<ModelFolder> Repository::read(const LoadModel& what) const {
  // What a client sent is never the same as what is there, whatever its bytes are.
  static std::atomic<std::uint64_t> sent{0};
  const auto restamp = [&](ModelFolder model) {
    if (!what.config) return model;
    const std::uint64_t other = ++sent * 0x9e3779b97f4a7c15;
    for (ModelVersion& version : model.versions) version.stamp ^= other;
    model.stamp ^= other;
    return model;
  };
  if (!what.files.empty()) {
    if (!what.config) {
      return fail(Code::kInvalid, "model '" + what.name + "': files need a config beside them");
    }
    auto folder = TemporaryFolder::make(what.files);
    if (!folder) return tl::unexpected(folder.error());
    ModelFolder model = restamp(read(Place{what.name, (*folder)->path(), {}}, what.config));
    name_in_place_of((*folder)->path().string(), model);
    model.keep = std::move(*folder);
    return model;
  }
  const auto all = places();
  if (!all) return tl::unexpected(all.error());
  const auto place = std::ranges::find(*all, what.name, &Place::name);
  if (place == all->end()) {
    return fail(Code::kNotFound, "unknown model '" + what.name + "': no repository has its folder");
  }
  return restamp(read(*place, what.config));
}

}  // namespace gradus::serving
