#include "config/provider_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradus::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Names = std::vector<std::string>;

const Names kCudaCpu = {"CUDAExecutionProvider", "CPUExecutionProvider"};

TEST(ProviderNames, FullAndShortNamesInAnyCaseGiveTheFullName) {
  const std::pair<const char*, const char*> cases[] = {
      {"CUDAExecutionProvider", "CUDAExecutionProvider"},
      {"cudaexecutionprovider", "CUDAExecutionProvider"},
      {"cuda", "CUDAExecutionProvider"},
      {"CUDA", "CUDAExecutionProvider"},
      {" \tWebGPU \n", "WebGpuExecutionProvider"},
      {"tensorrt", "TensorrtExecutionProvider"},
      {"TRT", "TensorrtExecutionProvider"},
      {"nvtensorrtrtx", "NvTensorRTRTXExecutionProvider"},
      {"DirectML", "DmlExecutionProvider"},
      {"dml", "DmlExecutionProvider"},
      {"migraphx", "MIGraphXExecutionProvider"},
      {"qnn", "QNNExecutionProvider"},
      {"oneDNN", "DnnlExecutionProvider"},
      {"xnnpack", "XnnpackExecutionProvider"},
      {"openvino", "OpenVINOExecutionProvider"},
      {"cpu", "CPUExecutionProvider"},
  };
  for (const auto& [word, full_name] : cases)
    EXPECT_EQ(full_provider_name(word), full_name) << word;
}

TEST(ProviderNames, OtherWordsAreUnknown) {
  for (const char* word : {"", "  ", "cud", "cudaa", "ExecutionProvider", "gpu", "cuda cpu"}) {
    EXPECT_EQ(full_provider_name(word), std::nullopt) << word;
  }
}

TEST(ProviderNames, EveryKnownNameIsFoundByBothItsForms) {
  for (const std::string& name : known_providers()) {
    EXPECT_EQ(full_provider_name(name), name);
    EXPECT_EQ(full_provider_name(short_provider_name(name)), name);
  }
}

TEST(ProviderNames, TellsAcceleratorsFromTheCpusOwn) {
  for (const char* name : {"CPU", "OpenVINO", "Dnnl", "Xnnpack", "ACL", "ArmNN"}) {
    EXPECT_FALSE(is_gpu_provider(*full_provider_name(name))) << name;
  }
  for (const char* name : {"CUDA", "Tensorrt", "WebGpu", "MIGraphX", "QNN", "Dml"}) {
    EXPECT_TRUE(is_gpu_provider(*full_provider_name(name))) << name;
  }
  EXPECT_TRUE(is_gpu_provider("SomebodysOwnExecutionProvider"));
}

TEST(ProviderNames, GpuProvidersStandBeforeCpuProvidersAndTheCpuLast) {
  bool cpu_seen = false;
  for (const std::string& name : known_providers()) {
    if (!is_gpu_provider(name)) cpu_seen = true;
    EXPECT_EQ(is_gpu_provider(name), !cpu_seen) << name;
  }
  EXPECT_EQ(known_providers().back(), "CPUExecutionProvider");
}

TEST(ProviderList, EveryFormOfTheSameListIsTheSame) {
  for (const char* text : {
           "CUDAExecutionProvider;CPUExecutionProvider",
           "CUDAExecutionProvider,CPUExecutionProvider",
           "cuda,cpu",
           "cuda;cpu",
           " CUDA , Cpu ",
           "\tcuda;\ncpu\n",
           "cuda,cpu,cuda,CUDAExecutionProvider",
           "cuda;;cpu;",
           ",cuda,CPUEXECUTIONPROVIDER",
           "cuda;cpu,cuda",
       }) {
    const auto list = parse_provider_list(text);
    ASSERT_TRUE(list) << text;
    EXPECT_EQ(*list, kCudaCpu) << text;
  }
}

TEST(ProviderList, KeepsTheGivenOrder) {
  EXPECT_THAT(
      **parse_provider_list("cpu;webgpu;openvino"),
      ElementsAre("CPUExecutionProvider", "WebGpuExecutionProvider", "OpenVINOExecutionProvider"));
}

TEST(ProviderList, EmptyMeansTheDefault) {
  for (const char* text : {"", " ", "\t\n", ";", " , ;"}) {
    const auto list = parse_provider_list(text);
    ASSERT_TRUE(list) << '"' << text << '"';
    EXPECT_EQ(*list, std::nullopt) << '"' << text << '"';
  }
}

TEST(ProviderList, AnUnknownWordIsNamedBesideAllKnownNames) {
  const auto list = parse_provider_list("cuda; cdua ,cpu");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, Code::kInvalid);
  EXPECT_THAT(list.error().message, HasSubstr("unknown provider \"cdua\"; known: Tensorrt"));
  for (const std::string& name : known_providers()) {
    EXPECT_THAT(list.error().message, HasSubstr(name));
  }
  EXPECT_THAT(list.error().message, Not(HasSubstr("\n")));
}

TEST(ProviderList, EveryUnknownWordIsNamed) {
  EXPECT_THAT(parse_provider_list("a b,cpu,c").error().message, HasSubstr("\"a b, c\""));
}

TEST(ProviderList, ProvidersWithALibraryOfTheirOwnAreKnown) {
  const Names extra = {"FaultyExecutionProvider", "odd.name"};
  EXPECT_THAT(**parse_provider_list("faulty,ODD.NAME,faultyexecutionprovider,cpu", extra),
              ElementsAre("FaultyExecutionProvider", "odd.name", "CPUExecutionProvider"));
  EXPECT_THAT(parse_provider_list("fautly", extra).error().message,
              AllOf(HasSubstr("FaultyExecutionProvider"), HasSubstr("odd.name")));
  EXPECT_FALSE(parse_provider_list("faulty"));
}

TEST(ProviderOrder, AListGivesItsGpuAndItsCpuProvidersInItsOrder) {
  const ProviderOrder order =
      provider_order(Names{"OpenVINOExecutionProvider", "WebGpuExecutionProvider",
                           "CPUExecutionProvider", "CUDAExecutionProvider"},
                     {});
  EXPECT_THAT(order.gpu, ElementsAre("WebGpuExecutionProvider", "CUDAExecutionProvider"));
  EXPECT_THAT(order.cpu, ElementsAre("OpenVINOExecutionProvider", "CPUExecutionProvider"));
}

TEST(ProviderOrder, WithoutAListPluginAcceleratorsComeFirstAndOnlyTheCpuBelow) {
  const Names extra = {"OpenVINOExecutionProvider", "FaultyExecutionProvider"};
  const ProviderOrder order = provider_order(std::nullopt, extra);
  EXPECT_THAT(order.gpu, ElementsAre("FaultyExecutionProvider", "CUDAExecutionProvider",
                                     "MIGraphXExecutionProvider", "WebGpuExecutionProvider"));
  EXPECT_THAT(order.cpu, ElementsAre("CPUExecutionProvider"));
}

}  // namespace
}  // namespace gradus::config
