#include "triton/read.h"

#include <model_config.pb.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "config/load.h"
#include "triton/levels.h"
#include "triton/parse.h"
#include "triton/tensors.h"

namespace gradus::triton {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "config.pbtxt";
constexpr const char* kDefaultModel = "model.onnx";

/// The text of the file; nothing where there is none.
config::Loaded<std::optional<std::string>> read_file(const fs::path& file) {
  std::error_code error;
  if (fs::symlink_status(file, error).type() == fs::file_type::not_found) return std::nullopt;
  const auto size = fs::file_size(file, error);
  if (error) {
    return tl::unexpected(config::Faults{file.string() + ": cannot be read: " + error.message()});
  }
  constexpr std::uintmax_t kEnough = 2 << 20;  // more than parse_text takes
  std::string text(std::min(size, kEnough), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// What cannot be done here, with the reason; these are no models that ONNX Runtime could run.
void refuse_other_kinds(const inference::ModelConfig& message, Findings& findings) {
  if (message.has_ensemble_scheduling() || message.platform() == "ensemble") {
    findings.refuse(message.has_ensemble_scheduling() ? "ensemble_scheduling" : "platform",
                    "ensembles are not supported; let the client call one model after the other");
    return;
  }
  if (!message.backend().empty() && message.backend() != "onnxruntime") {
    findings.refuse("backend", json_string(message.backend()) +
                                   " is not supported; only \"onnxruntime\" is: ONNX models");
  }
  if (!message.platform().empty() && message.platform() != "onnxruntime_onnx") {
    findings.refuse("platform", json_string(message.platform()) +
                                    " is not supported; only \"onnxruntime_onnx\" is: ONNX models");
  }
  if (message.has_sequence_batching()) {
    findings.refuse("sequence_batching",
                    "sequences are not supported: each request is answered by itself");
  }
  if (message.model_transaction_policy().decoupled()) {
    findings.refuse("model_transaction_policy.decoupled",
                    "an ONNX model gives one answer to each request");
  }
  if (message.model_operations().op_library_filename_size() > 0) {
    findings.refuse("model_operations.op_library_filename",
                    "libraries of custom operations are not loaded");
  }
}

void note_ignored(const inference::ModelConfig& message, Findings& findings) {
  const auto ignore = [&](bool given, const char* field, const char* why) {
    if (given) findings.ignore(field, why);
  };
  ignore(!message.runtime().empty(), "runtime", "the runtime is built in");
  ignore(message.cc_model_filenames_size() > 0, "cc_model_filenames",
         "one file serves every device");
  ignore(message.metric_tags_size() > 0, "metric_tags", "metrics have labels of their own");
  ignore(message.has_model_metrics(), "model_metrics", "histograms have buckets of their own");
  ignore(message.response_cache().enable(), "response_cache", "answers are not kept");
  ignore(message.model_repository_agents().agents_size() > 0, "model_repository_agents",
         "there are none");
}

config::VersionPolicy read_versions(const inference::ModelVersionPolicy& policy,
                                    Findings& findings) {
  config::VersionPolicy versions;
  if (policy.has_all()) {
    versions.latest = 0;
  } else if (policy.has_specific()) {
    if (policy.specific().versions_size() == 0) {
      findings.refuse("version_policy.specific", "versions: missing");
    }
    for (const std::int64_t version : policy.specific().versions()) {
      if (version < 1) {
        findings.refuse("version_policy.specific.versions",
                        std::to_string(version) + ": must be at least 1");
      } else {
        versions.specific.insert(static_cast<std::uint64_t>(version));
      }
    }
  } else {
    versions.latest = std::max(1U, policy.latest().num_versions());
  }
  return versions;
}

/// `default_model_filename` takes the place of model.onnx.
std::string model_file(const inference::ModelConfig& message, const fs::path& version_folder,
                       config::VariantFiles& files, Findings& findings) {
  const std::string& name = message.default_model_filename();
  if (name.empty()) return kDefaultModel;
  std::error_code error;
  if (!stays_below(name) || name.find('/') != std::string::npos) {
    findings.refuse("default_model_filename",
                    json_string(name) + ": must be the name of a file in each version's folder");
  } else if (!fs::is_regular_file(version_folder / name, error)) {
    findings.refuse("default_model_filename",
                    json_string(name) + ": no such file in " + version_folder.string());
  }
  files.model = true;
  return name;
}

config::Loaded<config::ModelConfig> interpret(const Parsed& parsed, const std::string& shown_name,
                                              const serving::ConfigSource& source,
                                              const config::ServerConfig& server) {
  const inference::ModelConfig& message = *parsed.message;
  Findings findings(shown_name, parsed.line_of);
  if (!message.name().empty() && message.name() != source.model) {
    findings.refuse("name", json_string(message.name()) + ": must be the model's, " +
                                json_string(source.model) + ", or be left out");
  }
  refuse_other_kinds(message, findings);
  config::VariantFiles files = config::find_variants(source.version_folder);
  const std::string file = model_file(message, source.version_folder, files, findings);
  const config::VersionPolicy versions = read_versions(message.version_policy(), findings);
  Declarations said = read_tensors(message, source.model_folder, findings);
  const auto change_levels = read_levels(message, said.declared, server, findings);
  note_ignored(message, findings);

  config::Base base;
  base.change = [&](config::ModelConfig& config) {
    for (config::LevelConfig& level : config.levels) {
      if (level.file == kDefaultModel) level.file = file;
    }
    config.version_policy = versions;
    change_levels(config);
  };
  if (const auto own = message.parameters().find("gradus"); own != message.parameters().end()) {
    base.yaml = own->second.string_value();
    base.shown_name = shown_name + ": parameters \"gradus\"";
  }
  auto config = config::load_model_config(source.model_folder, files, server, base);
  if (!config) {
    findings.faults.insert(findings.faults.end(), config.error().begin(), config.error().end());
  }
  if (!findings.faults.empty()) return tl::unexpected(std::move(findings.faults));
  config->declared = std::move(said.declared);
  config->warmup = std::move(said.warmup);
  config->labels = std::move(said.labels);
  config->triton = parsed.serialised;
  config->notes = std::move(findings.notes);
  return config;
}

}  // namespace

config::Loaded<config::ModelConfig> read_config(const serving::ConfigSource& source,
                                                const config::ServerConfig& server) {
  if (source.config) {
    const std::string shown_name = "config of model '" + source.model + "'";
    const auto parsed = parse_json(*source.config, shown_name);
    if (!parsed) return tl::unexpected(parsed.error());
    return interpret(*parsed, shown_name, source, server);
  }
  const fs::path file = source.model_folder / kFile;
  const auto text = read_file(file);
  if (!text) return tl::unexpected(text.error());
  if (!*text) {
    return config::load_model_config(source.model_folder,
                                     config::find_variants(source.version_folder), server);
  }
  const auto parsed = parse_text(**text, file.string());
  if (!parsed) return tl::unexpected(parsed.error());
  return interpret(*parsed, file.string(), source, server);
}

}  // namespace gradus::triton
