// docs/configuration.md is what the tables print. GRADUS_WRITE_DOCS=1 writes it anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/tables.h"
#include "unit/config/config_test_support.h"

namespace gradus::config {
namespace {

using testing::HasSubstr;

std::string documentation() {
  std::ostringstream out;
  document(out);
  return out.str();
}

TEST(Documentation, IsTheCommittedPage) {
  const std::filesystem::path page = std::filesystem::path(GRADUS_DOCS) / "configuration.md";
  if (std::getenv("GRADUS_WRITE_DOCS") != nullptr) std::ofstream(page) << documentation();
  std::stringstream committed;
  committed << std::ifstream(page).rdbuf();
  EXPECT_EQ(committed.str(), documentation())
      << "write it anew: GRADUS_WRITE_DOCS=1, see the head of " << page;
}

TEST(Documentation, ExamplesLoad) {
  const std::string text = documentation();
  std::vector<std::string> examples;
  const std::string open = "```yaml\n";
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    examples.push_back(text.substr(at, text.find("```", at) - at));
  }
  ASSERT_EQ(examples.size(), 3u);
  const ScratchFile server(examples[0], "server.yaml");
  const auto config = load_server_config(server.path(), std::nullopt, {});
  ASSERT_TRUE(config) << lines(config.error());
  EXPECT_EQ(config->providers->size(), 3u);
  EXPECT_EQ(loaded(examples[1]).levels.size(), 4u);
  EXPECT_EQ(loaded(examples[1]).levels[0].max_batch_size, 16u);
  EXPECT_EQ(loaded(examples[2]).levels.size(), 2u);
}

TEST(Documentation, NamesEveryKey) {
  const std::string text = documentation();
  const auto expect_row = [&](const std::string& key) {
    EXPECT_THAT(text, HasSubstr("\n| `" + key + "` | ")) << key;
  };
  for (const auto& field : policy_fields()) expect_row(field.key);
  for (const auto& field : level_fields()) expect_row(field.key);
  for (const auto& field : model_fields()) expect_row(field.key);
  for (const auto& field : queue_policy_fields()) expect_row(field.key);
  for (const auto& field : http_fields()) expect_row("http." + field.key);
  for (const auto& field : grpc_fields()) expect_row("grpc." + field.key);
  for (const auto& field : metrics_fields()) expect_row("metrics." + field.key);
  for (const auto& field : alerts_fields()) expect_row("alerts." + field.key);
  for (const auto& field : admin_fields()) expect_row("admin." + field.key);
  for (const auto& field : trace_fields()) expect_row("trace." + field.key);
  for (const auto& field : server_fields()) {
    if (field.key != "admin" && field.key != "alerts" && field.key != "grpc" &&
        field.key != "http" && field.key != "metrics" && field.key != "trace") {
      expect_row(field.key);
    }
  }
}

}  // namespace
}  // namespace gradus::config
