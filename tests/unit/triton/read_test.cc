// Every folder of tests/repositories/triton, held against the one table of what comes of them; and
// what no folder can show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/cpu_count.h"
#include "base/json_text.h"
#include "config/tables.h"
#include "serving/declared.h"
#include "unit/triton/repository.h"

namespace gradus::triton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Model -> lines; `…` cuts the rest of its line.
std::map<std::string, std::string> table() {
  std::ifstream file(std::filesystem::path(GRADUS_REPOSITORIES) / "triton.outcomes");
  std::map<std::string, std::string> rows;
  std::string model;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('[')) {
      model = line.substr(1, line.size() - 2);
      rows[model];
    } else {
      rows[model] += line + "\n";
    }
  }
  return rows;
}

void flatten(const std::string& path, const config::Value& value,
             std::map<std::string, std::string>& out) {
  if (value.kind == config::Value::Kind::kMap) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      flatten(path + (path.empty() ? "" : ".") + value.keys[i], value.items[i], out);
    }
  } else if (path == "levels") {
    for (const config::Value& level : value.items) flatten(level.find("name")->text, level, out);
  } else if (value.kind == config::Value::Kind::kList) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      flatten(path + "[" + std::to_string(i) + "]", value.items[i], out);
    }
  } else {
    out[path] = value.text;
  }
}

std::map<std::string, std::string> effective(const config::ModelConfig& config) {
  std::map<std::string, std::string> values;
  flatten("", config::show_fields(config::model_fields(), config), values);
  return values;
}

/// Without the folder's path.
std::string shortened(std::string text, const std::string& model) {
  const std::string folder = (kRepository / model).string() + "/";
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;)
    text.erase(at, folder.size());
  return text + "\n";
}

std::string changes(const config::ModelConfig& usual, const config::ModelConfig& config) {
  const auto before = effective(usual);
  const auto after = effective(config);
  std::string text;
  for (const auto& [path, value] : after) {
    const auto old = before.find(path);
    if (old == before.end() || old->second != value) text += path + " " + value + "\n";
  }
  std::set<std::string> left_out;
  for (const auto& [path, value] : before) {
    if (path.ends_with(".name") && !after.contains(path)) left_out.insert(value);
  }
  for (const std::string& level : left_out) text += "no level " + level + "\n";
  for (const auto& [output, labels] : config.labels) {
    text += "labels of " + output + ":";
    for (const std::string& label : labels) text += " " + label;
    text += "\n";
  }
  for (const config::WarmupSample& sample : config.warmup) {
    text += "warm-up " + sample.name + ": batch of " + std::to_string(sample.batch_size) + ", " +
            std::to_string(sample.runs) + " runs\n";
  }
  return text;
}

std::string outcome(const std::string& model) {
  const serving::ConfigSource source = source_of(model);
  const auto config = read_config(source, {});
  std::string text;
  if (!config) {
    for (const std::string& fault : config.error()) text += shortened(fault, model);
    return text;
  }
  config::VariantFiles files = config::find_variants(source.version_folder);
  files.model = true;
  text = changes(*config::load_model_config(kRepository / "no_config", files, {}), *config);
  for (const std::string& note : config->notes) text += "note: " + shortened(note, model);
  const std::string contradiction = serving::contradiction(
      config->declared,
      signature_of(source.version_folder / config->levels.back().file, config->declared));
  if (!contradiction.empty()) text += "refused by the file: " + contradiction + "\n";
  return text;
}

bool fits(const std::string& text, const std::string& pattern) {
  std::istringstream lines(text), patterns(pattern);
  std::string line, wanted;
  while (std::getline(patterns, wanted)) {
    if (!std::getline(lines, line)) return false;
    const std::size_t cut = wanted.find("…");
    if (cut == std::string::npos ? line != wanted : !line.starts_with(wanted.substr(0, cut))) {
      return false;
    }
  }
  return !std::getline(lines, line);
}

TEST(TritonRepository, EveryFolderComesOutAsTheTableSays) {
  for (const auto& [model, expected] : table()) {
    const std::string text = outcome(model);
    EXPECT_TRUE(fits(text, expected)) << model << "\n--- is\n"
                                      << text << "--- should be\n"
                                      << expected;
  }
}

TEST(TritonRepository, EveryFolderIsInTheTable) {
  std::set<std::string> folders, rows;
  for (const auto& entry : std::filesystem::directory_iterator(kRepository)) {
    folders.insert(entry.path().filename().string());
  }
  for (const auto& [model, expected] : table()) rows.insert(model);
  EXPECT_EQ(folders, rows);
}

TEST(ReadConfig, TakesTheJsonOfALoadInPlaceOfTheFile) {
  serving::ConfigSource source = source_of("kind_cpu");
  source.config = R"({"name": "kind_cpu", "maxBatchSize": 4, "dynamic_batching": {}})";
  const config::ModelConfig config = read_good(source);
  EXPECT_EQ(config.levels.size(), 2u) << "the file's KIND_CPU does not count";
  EXPECT_EQ(config.levels[0].max_batch_size, 4u);
}

TEST(ReadConfig, NamesWhatIsWrongInTheJsonOfALoad) {
  serving::ConfigSource source = source_of("minimal");
  const auto fault = [&source](std::string json) {
    source.config = std::move(json);
    const auto config = read_config(source, {});
    EXPECT_FALSE(config) << *source.config;
    return config ? "" : config.error().front();
  };
  EXPECT_EQ(fault(R"({"max_bach_size": 4})"),
            "config of model 'minimal': unknown field max_bach_size");
  EXPECT_EQ(fault(R"({"dynamic_batching": {"prefered_batch_size": [4]}})"),
            "config of model 'minimal': unknown field (dynamic_batching) prefered_batch_size");
  EXPECT_EQ(fault(R"({"input": [{"name": "x", "data_type": "FP32"}]})"),
            "config of model 'minimal': (input[0].data_type): invalid value \"FP32\" for type "
            "DataType");
  EXPECT_THAT(fault("{"), StartsWith("config of model 'minimal': "));
  EXPECT_EQ(fault("[]"), "config of model 'minimal': Root element must be a message");
  EXPECT_EQ(fault(R"({"name": "other"})"),
            "config of model 'minimal': name: \"other\": must be the model's, \"minimal\", or be "
            "left out");
}

TEST(ReadConfig, SaysWhatABatchersFieldNeedsBesideIt) {
  serving::ConfigSource source = source_of("minimal");
  const auto fault = [&source](const std::string& fields, const std::string& batcher) {
    source.config = "{" + fields + R"("dynamic_batching": {)" + batcher + "}}";
    const auto config = read_config(source, {});
    return config ? "" : config.error().front();
  };
  const std::string at = "config of model 'minimal': dynamic_batching.";
  EXPECT_EQ(fault("", R"("priority_queue_policy": {"7": {"max_queue_size": 1}})"),
            at + "priority_queue_policy: needs priority_levels beside it");
  EXPECT_EQ(fault(R"("max_batch_size": 0, )", R"("preferred_batch_size": [4])"),
            at + "preferred_batch_size: needs a max_batch_size over 0")
      << "as Triton has it";
  EXPECT_EQ(fault(R"("max_batch_size": 0, )", R"("preferred_batch_size": [])"), "");
}

TEST(ReadConfig, LetsCpuInstancesUseAllCpusTogether) {
  serving::ConfigSource source = source_of("minimal");
  source.config = R"({"instance_group": [{"kind": "KIND_CPU", "count": 1}]})";
  EXPECT_EQ(read_good(source).levels[0].threads, std::min(usable_cpus(), 256));
  source.config = R"({"instance_group": [{"kind": "KIND_CPU", "count": 256}]})";
  EXPECT_EQ(read_good(source).levels[0].threads, std::max(1, usable_cpus() / 256));
}

TEST(ReadConfig, ServesByTheCpuWhereTheOperatorWantsNoGpu) {
  config::ServerConfig server;
  server.providers = {"CPUExecutionProvider"};
  const auto config = read_config(source_of("kind_gpu"), server);
  ASSERT_TRUE(config) << config.error().front();
  ASSERT_EQ(config->levels.size(), 1u);
  EXPECT_EQ(config->levels[0].name, "cpu");
  EXPECT_FALSE(config->wants_gpu);
}

TEST(ReadConfig, TakesProvidersThatComeAsLibraries) {
  serving::ConfigSource source = source_of("minimal");
  source.config = R"({"optimization": {"execution_accelerators": {"gpu_execution_accelerator":
                     [{"name": "fault", "parameters": {"mode": "1"}}]}}})";
  config::ServerConfig server;
  server.provider_libraries = {{"FaultExecutionProvider", "/lib.so"}};
  const auto config = read_config(source, server);
  ASSERT_TRUE(config) << config.error().front();
  EXPECT_EQ(config->levels[0].providers[0],
            (config::ProviderConfig{"FaultExecutionProvider", {{"mode", "1"}}}));
}

// Whatever a file holds, it is read (here every 19th byte), or refused by lines that can be shown.
TEST(ReadConfig, TakesAnyCutAndAnySpoiltByteOfAFile) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "gradus-triton-spoilt";
  std::filesystem::create_directories(folder / "1");
  std::ofstream(folder / "1" / "model.onnx") << "any";
  int refused = 0;
  const auto try_text = [&](const std::string& text) {
    std::ofstream(folder / "config.pbtxt", std::ios::binary) << text;
    const auto config = read_config(
        {.model_folder = folder, .version_folder = folder / "1", .config = {}, .model = "m"}, {});
    if (config) return;
    ++refused;
    EXPECT_FALSE(config.error().empty());
    for (const std::string& fault : config.error()) {
      EXPECT_EQ(valid_utf8_prefix(fault), fault.size()) << fault;
      EXPECT_THAT(fault, Not(HasSubstr("\n")));
      EXPECT_THAT(fault, StartsWith(folder.string()));
    }
  };
  for (const char* model : {"dynamic_batching", "ignored_fields", "warmup_wrong"}) {
    std::stringstream whole;
    whole << std::ifstream(kRepository / model / "config.pbtxt").rdbuf();
    const std::string text = whole.str();
    for (std::size_t i = 0; i < text.size(); i += 19) {
      try_text(text.substr(0, i));
      std::string spoilt = text;
      spoilt[i] = static_cast<char>(i % 3 == 0 ? 0xff : i % 3 == 1 ? '{' : '\0');
      try_text(spoilt);
    }
  }
  EXPECT_GT(refused, 100);
  std::filesystem::remove_all(folder);
}

TEST(ReadConfig, RefusesAFileThatCannotBeRead) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "gradus-triton-unreadable";
  std::filesystem::create_directories(folder / "config.pbtxt");
  const auto config = read_config(
      {.model_folder = folder, .version_folder = folder / "1", .config = {}, .model = "m"}, {});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error(),
              ElementsAre((folder / "config.pbtxt").string() + ": cannot be read: Is a directory"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gradus::triton
