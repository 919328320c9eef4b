// Each fault of a run that leaves the process alive, and exactly what it does.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <sstream>

#include "fixture.h"

namespace gradus::fault {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunFault : public FaultTest {
 protected:
  const std::unique_ptr<OrtRuntime> runtime_ = registered();
  const std::unique_ptr<Backend> backend_ = loaded(*runtime_, spec());
  const std::vector<std::vector<std::byte>> right_ = outputs(*backend_).value();

  bool runs_well() { return outputs(*backend_) == right_; }

  /// Which of the next runs fail.
  std::string pattern(int runs) {
    std::string seen;
    for (int i = 0; i < runs; ++i) seen += error_of_run(*backend_).empty() ? '.' : 'x';
    return seen;
  }
};

TEST_F(RunFault, ErrorHasTheGivenCodeAndText) {
  order(Place::kRun, {.text = "CUDA failure 700: an illegal memory access was encountered"});
  const auto failed = outputs(*backend_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_THAT(failed.error().message,
              HasSubstr("CUDA failure 700: an illegal memory access was encountered"));
  EXPECT_TRUE(runs_well()) << "one was ordered";
  const Counters counters = control_.counters();
  EXPECT_EQ(counters.injected, 1u);
  EXPECT_EQ(counters.runs, counters.ok + 1);
  constexpr std::uint32_t kInvalidArgument = 2;
  order(Place::kRun, {.code = kInvalidArgument, .text = "the shape of x"});
  EXPECT_EQ(outputs(*backend_).error().code, Code::kInvalid) << "ORT_INVALID_ARGUMENT arrives";
}

TEST_F(RunFault, StrikesAsOftenAndAsLateAsOrdered) {
  order(Place::kRun, {.skip = 2, .count = 3});
  EXPECT_EQ(control_.left(Place::kRun), 3u);
  EXPECT_EQ(pattern(8), "..xxx...");
  EXPECT_EQ(control_.left(Place::kRun), 0u);
  order(Place::kRun, {.skip = 1, .count = 3, .every = 2});
  EXPECT_EQ(pattern(9), ".x.x.x...");
  order(Place::kRun, {.count = kForever});
  EXPECT_EQ(pattern(20), std::string(20, 'x'));
  control_.cancel(Place::kRun);
  EXPECT_EQ(pattern(3), "...");
  EXPECT_EQ(control_.counters().injected, 26u);
}

TEST_F(RunFault, TellsWhenItStruck) {
  const auto now = [] {
    return static_cast<std::uint64_t>(steady_clock().now().time_since_epoch().count());
  };
  order(Place::kRun, {});
  const std::uint64_t before = now();
  EXPECT_EQ(pattern(1), "x");
  EXPECT_GE(control_.counters().injected_at_ns, before);
  EXPECT_LE(control_.counters().injected_at_ns, now());
}

TEST_F(RunFault, OutOfMemorySoundsLikeOnnxRuntimes) {
  order(Place::kRun, {.fault = Fault::kOutOfMemory});
  const auto failed = outputs(*backend_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_THAT(failed.error().message,
              HasSubstr("Failed to allocate memory for requested buffer of size 1073741824"));
  EXPECT_TRUE(runs_well());
}

TEST_F(RunFault, NanFillsFloatingPointOutputs) {
  order(Place::kRun, {.fault = Fault::kNan});
  const auto spoilt = outputs(*backend_);
  ASSERT_TRUE(spoilt) << "the run itself goes well";
  std::vector<float> logits(10);
  ASSERT_EQ(spoilt->at(0).size(), sizeof(float) * logits.size());
  std::memcpy(logits.data(), spoilt->at(0).data(), spoilt->at(0).size());
  EXPECT_THAT(logits, Each(::testing::IsNan()));
  EXPECT_TRUE(runs_well());
}

TEST_F(RunFault, NanIsFoundByCheckOutputs) {
  LoadSpec checked = spec();
  checked.check_outputs = config::CheckOutputs::kFinite;
  const auto backend = loaded(*runtime_, checked);
  order(Place::kRun, {.fault = Fault::kNan});
  EXPECT_THAT(error_of_run(*backend), HasSubstr("is not finite"));
  EXPECT_EQ(error_of_run(*backend), "");
}

TEST_F(RunFault, NanLeavesOtherTypesAlone) {
  const std::string file = runtime::shared_model("every_type/1/model.onnx");
  const auto backend = loaded(*runtime_, spec(file));
  const auto right = outputs(*backend);
  ASSERT_TRUE(right);
  order(Place::kRun, {.fault = Fault::kNan});
  const auto spoilt = outputs(*backend);
  ASSERT_TRUE(spoilt);
  const auto& specs = backend->signature().outputs;
  int floats = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const DType type = specs[i].dtype;
    const bool is_float = type == DType::kFp16 || type == DType::kBf16 || type == DType::kFp32 ||
                          type == DType::kFp64;
    floats += is_float ? 1 : 0;
    if (is_float) {
      EXPECT_THAT(spoilt->at(i), Each(std::byte{0xff})) << specs[i].name;
    } else {
      EXPECT_EQ(spoilt->at(i), right->at(i)) << specs[i].name;
    }
  }
  EXPECT_EQ(floats, 4) << "of the model's outputs";
}

TEST_F(RunFault, TruncateHalvesTheLastDimension) {
  order(Place::kRun, {.fault = Fault::kTruncate});
  const auto images = runtime::fashion_images(3);
  const std::vector inputs = {runtime::view(DType::kFp32, {3, 1, 28, 28}, images)};
  const auto cut = runtime::run_all(*backend_, inputs);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->at(0).shape, (Shape{3, 5}));
  EXPECT_EQ(cut->at(0).data.size(), 3 * 5 * sizeof(float));
  EXPECT_EQ(runtime::run_all(*backend_, inputs)->at(0).shape, (Shape{3, 10}));
}

TEST_F(RunFault, TruncateCutsStringsAndLeavesScalars) {
  const auto lower = loaded(*runtime_, spec(runtime::own_model("lower.onnx")));
  order(Place::kRun, {.fault = Fault::kTruncate});
  const std::vector<char> words = {1, 0, 0, 0, 'A', 1, 0, 0, 0, 'B', 1, 0, 0, 0, 'C'};
  const auto cut = runtime::run_all(*lower, {runtime::view(DType::kBytes, {3}, words)});
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->at(0).shape, (Shape{1}));
  EXPECT_THAT(runtime::values_of<char>(cut->at(0)), ElementsAre(1, 0, 0, 0, 'a'));

  const auto scalar = loaded(*runtime_, spec(runtime::shared_model("scalar/1/model.onnx")));
  const auto right = outputs(*scalar).value();
  order(Place::kRun, {.fault = Fault::kTruncate});
  EXPECT_EQ(outputs(*scalar).value(), right);
}

TEST_F(RunFault, DelayIsAddedToEveryRunUntilItIsTakenBack) {
  const auto took = [&] {
    const TimePoint begun = steady_clock().now();
    EXPECT_TRUE(runs_well());
    return steady_clock().now() - begun;
  };
  ASSERT_TRUE(control_.set_delay(100ms));
  for (int i = 0; i < 3; ++i) EXPECT_GE(took(), 100ms);
  ASSERT_TRUE(control_.set_delay(0ms));
  EXPECT_TRUE(eventually([&] { return took() < 100ms; }));
}

TEST_F(RunFault, OfABatchLeavesSmallerOnesAlone) {
  order(Place::kRun, {.count = 2, .batch = 3});
  const auto runs = [&](std::int64_t samples) {
    const auto images = runtime::fashion_images(static_cast<std::size_t>(samples));
    const std::vector inputs = {runtime::view(DType::kFp32, {samples, 1, 28, 28}, images)};
    return runtime::run_all(*backend_, inputs).has_value();
  };
  EXPECT_TRUE(runs(1) && runs(2));
  EXPECT_FALSE(runs(3) || runs(4));
  EXPECT_TRUE(runs(3)) << "two were ordered";
}

TEST_F(RunFault, OnOneDeviceLeavesTheOthersAlone) {
  order(Place::kRun, {.count = kForever, .devices = 1U << 1});
  EXPECT_EQ(pattern(3), "...") << "this is device 0";
  order(Place::kRun, {.devices = 1U << 0});
  EXPECT_EQ(pattern(3), "x..");
}

TEST_F(RunFault, ADeviceThatIsGoneFailsRunsAndLoadsUntilItIsBack) {
  control_.set_gone(1);
  EXPECT_THAT(error_of_run(*backend_),
              HasSubstr("device 0 is gone: CUDA failure 100: no CUDA-capable device is detected"));
  EXPECT_EQ(pattern(5), "xxxxx");
  EXPECT_THAT(why_not(*runtime_, spec()), HasSubstr("device 0 is gone"));
  control_.set_gone(0);
  EXPECT_TRUE(runs_well()) << "the session that was there";
  EXPECT_EQ(why_not(*runtime_, spec()), "") << "a new one";
}

TEST_F(RunFault, ClearTakesEverythingBack) {
  order(Place::kRun, {.count = kForever});
  order(Place::kCreate, {.count = kForever});
  order(Place::kCompile, {.count = kForever});
  control_.set_gone(kEveryDevice);
  ASSERT_TRUE(control_.set_delay(1h));
  control_.clear();
  EXPECT_TRUE(runs_well());
  EXPECT_EQ(why_not(*runtime_, spec()), "");
}

// A run on a thread of its own, which can be looked at while it hangs.
class HungRun {
 public:
  explicit HungRun(std::function<void()> run)
      : thread_([this, run = std::move(run)] {
          id_ = gettid();
          run();
          done_ = true;
        }) {}
  bool done() const { return done_; }

  /// Of /proc/PID/task/TID/stat: the state, then user and system time in clock ticks.
  std::pair<char, long> state_and_ticks() const {
    std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
    return {words.at(0).at(0), std::stol(words.at(11)) + std::stol(words.at(12))};
  }

 private:
  std::atomic<pid_t> id_{0};
  std::atomic<bool> done_{false};
  std::jthread thread_;
};

TEST_F(RunFault, HangSleepsUntilItIsReleasedAndThenAnswersWell) {
  order(Place::kRun, {.fault = Fault::kHang});
  bool well = false;
  {
    const HungRun hung([&] { well = runs_well(); });
    ASSERT_TRUE(eventually([&] { return control_.counters().hung == 1; }));
    const long ticks = hung.state_and_ticks().second;
    int asleep = 0;
    ASSERT_TRUE(eventually([&] { return (asleep += hung.state_and_ticks().first == 'S') == 100; }));
    EXPECT_LE(hung.state_and_ticks().second - ticks, 5) << "clock ticks of CPU in over 100 ms";
    EXPECT_FALSE(hung.done());
    EXPECT_TRUE(runs_well()) << "others run meanwhile";
    control_.release();
  }
  EXPECT_TRUE(well);
}

TEST_F(RunFault, SpinBurnsACpuUntilItIsReleased) {
  order(Place::kRun, {.fault = Fault::kSpin});
  bool well = false;
  {
    const HungRun hung([&] { well = runs_well(); });
    ASSERT_TRUE(eventually([&] { return control_.counters().hung == 1; }));
    const long ticks = hung.state_and_ticks().second;
    EXPECT_TRUE(eventually([&] { return hung.state_and_ticks().second >= ticks + 10; }));
    EXPECT_FALSE(hung.done());
    control_.clear();
  }
  EXPECT_TRUE(well);
}

TEST_F(RunFault, ReleaseIsForWhatHangsThenNotForLater) {
  control_.release();
  order(Place::kRun, {.fault = Fault::kHang});
  const HungRun hung([&] { EXPECT_TRUE(runs_well()); });
  ASSERT_TRUE(eventually([&] { return control_.counters().hung == 1; }));
  EXPECT_FALSE(hung.done());
  control_.release();
  EXPECT_TRUE(eventually([&] { return hung.done(); }));
}

}  // namespace
}  // namespace gradus::fault
