// Faults of a load, the devices there are, and what is refused.
#include <gmock/gmock.h>

#include <fstream>

#include "fixture.h"

namespace gradus::fault {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using FaultyLoad = FaultTest;

LoadSpec with_option(LoadSpec spec, const std::string& key, const std::string& value) {
  spec.providers[0].options[key] = value;
  return spec;
}

TEST_F(FaultyLoad, FailsAtCreationAsOrdered) {
  const auto runtime = registered();
  order(Place::kCreate, {.count = 2, .text = "CUDA failure 35: driver too old"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(why_not(*runtime, spec()), HasSubstr("CUDA failure 35: driver too old"));
  }
  EXPECT_EQ(control_.counters().created, 0u);
  EXPECT_EQ(why_not(*runtime, spec()), "");
  EXPECT_EQ(control_.counters().created, 1u);
}

TEST_F(FaultyLoad, FailsAtCompilationAsOrdered) {
  const auto runtime = registered();
  order(Place::kCompile, {.text = "the engine could not be built"});
  EXPECT_THAT(why_not(*runtime, spec()), HasSubstr("the engine could not be built"));
  EXPECT_EQ(control_.counters().compiled, 0u);
  order(Place::kCompile, {.fault = Fault::kOutOfMemory});
  EXPECT_THAT(why_not(*runtime, spec()), HasSubstr("Failed to allocate memory"));
  EXPECT_EQ(why_not(*runtime, spec()), "");
  EXPECT_EQ(control_.counters().compiled, 1u);
}

TEST_F(FaultyLoad, FailsWhenItsProbeRunDoes) {
  const auto runtime = registered();
  order(Place::kRun, {.text = "CUDA failure 700"});
  EXPECT_THAT(why_not(*runtime, spec()),
              AllOf(HasSubstr("the probe run failed"), HasSubstr("CUDA failure 700")));
}

TEST_F(FaultyLoad, HangsUntilItIsReleased) {
  const auto runtime = registered();
  for (const Place place : {Place::kCreate, Place::kCompile}) {
    const auto hung_before = control_.counters().hung;
    order(place, {.fault = Fault::kHang});
    std::string reason = "nothing yet";
    {
      const std::jthread loading([&] { reason = why_not(*runtime, spec()); });
      EXPECT_TRUE(eventually([&] { return control_.counters().hung == hung_before + 1; }));
      control_.release();
    }
    EXPECT_EQ(reason, "");
  }
}

TEST_F(FaultyLoad, HasAsManyDevicesAsOrdered) {
  ASSERT_TRUE(control_.set_devices(3));
  const auto runtime = registered();
  EXPECT_THAT(why_not(*runtime, spec(fashion(), {3})), HasSubstr("no device 3: it has 3"));
  const auto last = loaded(*runtime, spec(fashion(), {2}));
  const auto first = loaded(*runtime, spec(fashion(), {0}));
  order(Place::kRun, {.count = kForever, .devices = 1U << 2});
  EXPECT_NE(error_of_run(*last), "");
  EXPECT_EQ(error_of_run(*first), "");
  control_.clear();
  control_.set_gone(1U << 0);
  EXPECT_THAT(error_of_run(*first), HasSubstr("device 0 is gone"));
  EXPECT_EQ(error_of_run(*last), "");
  EXPECT_THAT(why_not(*runtime, spec(fashion(), {0})), HasSubstr("device 0 is gone"));
  EXPECT_EQ(why_not(*runtime, spec(fashion(), {1})), "");
}

TEST_F(FaultyLoad, FindsNoDeviceWhereItIsGoneFromTheStart) {
  control_.set_gone(kEveryDevice);
  {
    const auto runtime = registered();
    EXPECT_THAT(why_not(*runtime, spec()), HasSubstr("its library offers no device here"));
    control_.set_gone(0);
    EXPECT_THAT(why_not(*runtime, spec()), HasSubstr("its library offers no device here"))
        << "ONNX Runtime asks a library once";
  }
  EXPECT_EQ(why_not(*registered(), spec()), "") << "registered anew";
}

TEST_F(FaultyLoad, TakesAControlFileOfItsOwn) {
  const std::string path = temporary("own");
  Control own = created(path);
  const auto runtime = registered();
  const auto backend = loaded(*runtime, with_option(spec(), "control", path));
  EXPECT_EQ(control_.counters().created, 0u);
  EXPECT_EQ(own.counters().created, 1u);
  order(Place::kRun, {});
  EXPECT_EQ(error_of_run(*backend), "") << "that order is for others";
  ASSERT_TRUE(own.order(Place::kRun, {.text = "own fault"}));
  EXPECT_THAT(error_of_run(*backend), HasSubstr("own fault"));
  std::filesystem::remove(path);
}

TEST_F(FaultyLoad, NeedsNoControlFile) {
  unsetenv(kVariable);
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec());
  EXPECT_EQ(error_of_run(*backend), "");
  EXPECT_EQ(control_.counters().runs, 0u);
}

TEST_F(FaultyLoad, RefusesUnknownOptionsByName) {
  EXPECT_THAT(why_not(*registered(), with_option(spec(), "contrl", path_)),
              HasSubstr("unknown option 'contrl'; known: control"));
}

TEST_F(FaultyLoad, RefusesAControlFileThatIsMissingOrNoneByItsPath) {
  const std::string text = temporary("text");
  std::ofstream(text) << "this is no control file";
  const std::string zeros = temporary("zeros");
  std::ofstream(zeros) << std::string(sizeof(Layout), '\0');
  const auto runtime = registered();
  EXPECT_THAT(why_not(*runtime, with_option(spec(), "control", "/nonexistent/control")),
              HasSubstr("control file /nonexistent/control: No such file or directory"));
  EXPECT_THAT(why_not(*runtime, with_option(spec(), "control", text)),
              HasSubstr("control file " + text + ": 23 bytes, must be 952"));
  EXPECT_THAT(why_not(*runtime, with_option(spec(), "control", zeros)),
              HasSubstr("control file " + zeros + ": no control file of version 1"));
  EXPECT_EQ(why_not(*runtime, spec()), "");
  for (const std::string& path : {text, zeros}) std::filesystem::remove(path);
}

TEST_F(FaultyLoad, IsNotRegisteredWithAControlFileThatIsMissing) {
  setenv(kVariable, "/nonexistent/control", 1);
  const auto runtime = registered();
  EXPECT_THAT(runtime->providers(), Not(::testing::Contains(kFaultProvider)));
  EXPECT_THAT(why_not(*runtime, spec()),
              HasSubstr("GRADUS_FAULT_CONTROL: control file /nonexistent/control: No such file"));
}

}  // namespace
}  // namespace gradus::fault
