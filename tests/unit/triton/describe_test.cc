#include "triton/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/triton/repository.h"

namespace gradus::triton {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string described(const std::string& model, const config::ModelConfig& config) {
  const auto json = describe(
      config, {.name = model,
               .versions = {"1"},
               .version = "1",
               .signature = signature_of(kRepository / model / "1" / config.levels.back().file,
                                         config.declared)});
  EXPECT_TRUE(json) << json.error().message;
  return json.value_or("");
}
std::string described(const std::string& model) {
  return described(model, read_good(source_of(model)));
}

TEST(Describe, CompletesAModelWithoutConfigFromItsFileAndItsLadder) {
  EXPECT_EQ(
      described("no_config"),
      R"({"name":"no_config","platform":"onnxruntime_onnx","backend":"onnxruntime","runtime":"",)"
      R"("version_policy":{"latest":{"num_versions":1}},"max_batch_size":32,)"
      R"("input":[{"name":"x","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[4],)"
      R"("is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,)"
      R"("is_non_linear_format_io":false}],)"
      R"("output":[{"name":"y","data_type":"TYPE_FP32","dims":[4],"label_filename":"",)"
      R"("is_shape_tensor":false,"is_non_linear_format_io":false}],)"
      R"("batch_input":[],"batch_output":[],)"
      R"("dynamic_batching":{"preferred_batch_size":[],"max_queue_delay_microseconds":0,)"
      R"("preserve_ordering":false,"priority_levels":0,"default_priority_level":0,)"
      R"("default_queue_policy":{"timeout_action":"REJECT",)"
      R"("default_timeout_microseconds":0,"allow_timeout_override":true,)"
      R"("max_queue_size":0},"priority_queue_policy":{}},)"
      R"("instance_group":[{"name":"no_config_gpu","kind":"KIND_GPU","count":0,"gpus":[],)"
      R"("secondary_devices":[],"profile":[],"passive":false,"host_policy":""},)"
      R"({"name":"no_config_cpu","kind":"KIND_CPU","count":0,"gpus":[],)"
      R"("secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],)"
      R"("default_model_filename":"model.onnx","cc_model_filenames":{},"metric_tags":{},)"
      R"("parameters":{},"model_warmup":[]})");
}

TEST(Describe, ShowsWhatWasSaidAndWhatBecameOfIt) {
  const std::string json = described("dynamic_batching");
  EXPECT_THAT(json, HasSubstr(R"("max_batch_size":8,)"));
  EXPECT_THAT(json, HasSubstr(R"("preferred_batch_size":[4,8],"max_queue_delay_microseconds":100,)"
                              R"("preserve_ordering":true,"priority_levels":3,)"
                              R"("default_priority_level":2,)"));
  EXPECT_THAT(json, HasSubstr(R"("default_queue_policy":{"timeout_action":"REJECT",)"
                              R"("default_timeout_microseconds":500500,)"
                              R"("allow_timeout_override":true,"max_queue_size":64},)"
                              R"("priority_queue_policy":{"1":{"timeout_action":"REJECT",)"
                              R"("default_timeout_microseconds":0,)"
                              R"("allow_timeout_override":false,"max_queue_size":10}}})"));
  EXPECT_THAT(described("queue_policies"),
              HasSubstr(R"("priority_queue_policy":{"1":{"timeout_action":"DELAY",)"
                        R"("default_timeout_microseconds":250,"allow_timeout_override":true,)"
                        R"("max_queue_size":100},"3":{"timeout_action":"REJECT",)"));
  EXPECT_THAT(described("version_specific"),
              HasSubstr(R"("version_policy":{"specific":{"versions":[1,3]}})"));
  EXPECT_THAT(described("kind_gpu"),
              HasSubstr(R"("name":"kind_gpu_gpu","kind":"KIND_GPU","count":2,"gpus":[0,1],)"));
  EXPECT_THAT(described("labels"), HasSubstr(R"("label_filename":"labels.txt")"));
}

TEST(Describe, ShowsTheLadderThatGradusYamlMakesOfIt) {
  config::ModelConfig config = read_good(source_of("dynamic_batching"));
  for (config::LevelConfig& level : config.levels) level.max_batch_size = 1;
  config.version_policy = {.latest = 0, .specific = {}};
  EXPECT_THAT(described("dynamic_batching", config), HasSubstr(R"("priority_levels":3,)"))
      << "nothing is joined, but requests wait by their priorities";
  config.priority_levels = 0;
  config.queue_policies = {};
  const std::string json = described("dynamic_batching", config);
  EXPECT_THAT(json, Not(HasSubstr("dynamic_batching\":"))) << "nothing is left of it";
  EXPECT_THAT(json, HasSubstr(R"("version_policy":{"all":{}},"max_batch_size":8,)"));
}

TEST(Describe, GivesDimensionsWithoutTheBatchWhereThereIsOne) {
  EXPECT_THAT(described("whole_shapes"), HasSubstr(R"("max_batch_size":0,"input":[{"name":"x",)"
                                                   R"("data_type":"TYPE_FP32",)"
                                                   R"("format":"FORMAT_NONE","dims":[1,4],)"));
  EXPECT_THAT(described("reshape"), HasSubstr(R"("dims":[4],"reshape":{"shape":[2,2]},)"));
  EXPECT_THAT(described("reshape"), HasSubstr(R"("dims":[1,4,1],"reshape":{"shape":[4]},)"));
}

TEST(Describe, ShowsOptionalInputsBehindTheOthers) {
  const std::string json = described("optional_input_batched");
  EXPECT_THAT(json, HasSubstr(R"("max_batch_size":8,"input":[{"name":"x",)"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"bias","data_type":"TYPE_FP32","format":"FORMAT_NONE",)"
                              R"("dims":[4],"is_shape_tensor":false,"allow_ragged_batch":false,)"
                              R"("optional":true,)"));
}

TEST(Describe, IsUnderstoodWhenItIsGivenBack) {
  for (const char* model :
       {"dynamic_batching", "queue_policies", "queue_policy_delay", "kind_cpu", "optional_input",
        "optional_input_batched", "parameters", "several_groups", "reshape"}) {
    serving::ConfigSource source = source_of(model);
    source.config = described(model);
    const config::ModelConfig again = read_good(source);
    const config::ModelConfig first = read_good(source_of(model));
    EXPECT_TRUE(again.levels == first.levels) << model;
    EXPECT_TRUE(again.declared == first.declared) << model;
    EXPECT_TRUE(again.queue_policies == first.queue_policies) << model;
    EXPECT_EQ(again.max_queue_size, first.max_queue_size) << model;
    EXPECT_EQ(described(model, again), described(model, first));
  }
}

}  // namespace
}  // namespace gradus::triton
