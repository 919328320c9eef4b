// Providers as configuration files write them.
#include <algorithm>

#include "config/provider_names.h"
#include "config/tables.h"

namespace gradus::config {
namespace {

/// The names in one scalar, `cuda` or `cuda, cpu`; nothing after a fault or for no name at all.
std::vector<std::string> read_names(const Value& value, Reader& reader) {
  auto names = parse_provider_list(value.text, reader.extra_providers);
  if (!names) {
    reader.fault("", names.error().message);
    return {};
  }
  return names->value_or(std::vector<std::string>{});
}

/// One entry of a level's list; false after a fault.
bool read_provider(const Value& value, Reader& reader, ProviderConfig& out) {
  const bool has_options = value.kind == Value::Kind::kMap && value.items.size() == 1;
  if (!has_options && value.kind != Value::Kind::kScalar) {
    reader.refuse(value, "must be a provider's name or one name with a map of options");
    return false;
  }
  const std::string& word = has_options ? value.keys[0] : value.text;
  const auto name = full_provider_name(word, reader.extra_providers);
  if (!name) {
    reader.fault("", unknown_provider(word, reader.extra_providers));
    return false;
  }
  out.name = *name;
  if (!has_options || value.items[0].kind == Value::Kind::kNull) return true;
  const Reader::Step step(reader, word);
  const Value& options = value.items[0];
  if (options.kind != Value::Kind::kMap) {
    reader.refuse(options, "must be a map of options");
    return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < options.items.size(); ++i) {
    if (options.items[i].kind == Value::Kind::kScalar) {
      out.options[options.keys[i]] = options.items[i].text;
    } else {
      reader.refuse_key(options.keys[i], options.items[i], "must be a text or number");
      good = false;
    }
  }
  return good;
}

}  // namespace

void read_level_providers(const Value& value, Reader& reader, std::vector<ProviderConfig>& out) {
  std::vector<ProviderConfig> read;
  bool good = true;
  if (value.kind == Value::Kind::kScalar) {
    const std::size_t before = reader.faults();
    for (std::string& name : read_names(value, reader)) read.push_back({std::move(name), {}});
    good = reader.faults() == before;
  } else if (value.kind == Value::Kind::kList) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const Reader::Step step(reader, index_segment(i));
      ProviderConfig provider;
      if (!read_provider(value.items[i], reader, provider)) {
        good = false;
      } else if (std::any_of(read.begin(), read.end(), [&](const ProviderConfig& other) {
                   return other.name == provider.name;
                 })) {
        reader.fault("", provider.name + " is named twice");
        good = false;
      } else {
        read.push_back(std::move(provider));
      }
    }
  }
  if (good && read.empty()) {
    reader.refuse(value, "must be a list of at least one provider");
    return;
  }
  if (good) out = std::move(read);
}

void read_provider_list(const Value& value, Reader& reader,
                        std::optional<std::vector<std::string>>& out) {
  std::vector<std::string> read;
  const auto append = [&](const Value& item) {
    for (std::string& name : read_names(item, reader)) {
      if (std::find(read.begin(), read.end(), name) == read.end()) read.push_back(std::move(name));
    }
  };
  if (value.kind == Value::Kind::kScalar) {
    append(value);
  } else if (value.kind == Value::Kind::kList) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const Reader::Step step(reader, index_segment(i));
      if (value.items[i].kind == Value::Kind::kScalar) {
        append(value.items[i]);
      } else {
        reader.refuse(value.items[i], "must be a provider's name");
      }
    }
  } else {
    reader.refuse(value, "must be a list of providers");
    return;
  }
  out.reset();
  if (!read.empty()) out = std::move(read);
}

void read_provider_libraries(const Value& value, Reader& reader,
                             std::map<std::string, std::string>& out) {
  if (value.kind != Value::Kind::kMap && value.kind != Value::Kind::kNull) {
    reader.refuse(value, "must be a map of provider names to paths");
    return;
  }
  out.clear();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Reader::Step step(reader, value.keys[i]);
    if (!is_plain_word(value.keys[i])) {
      reader.fault("", std::string("must be a name of ") + kPlainWord);
      continue;
    }
    const std::string name = full_provider_name(value.keys[i]).value_or(value.keys[i]);
    const Value& path = value.items[i];
    if (path.kind != Value::Kind::kScalar || !path.text.starts_with('/')) {
      reader.refuse(path, "must be an absolute path");
    } else if (!out.emplace(name, path.text).second) {
      reader.fault("", name + " is named twice");
    }
    reader.extra_providers.push_back(name);  // known even if its path is wrong
  }
}

}  // namespace gradus::config
