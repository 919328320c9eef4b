// The control file itself: what is refused, what every holder sees, and that Python's reader agrees
// on where each word lies.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "fixture.h"

namespace gradus::fault {
namespace {

using ::testing::HasSubstr;

using ControlFileTest = FaultTest;

std::string refusal(const Result<void>& result) {
  return result ? std::string("accepted") : result.error().message;
}

TEST_F(ControlFileTest, RefusesOrdersThatMeanNothing) {
  EXPECT_THAT(refusal(control_.order(Place::kRun, {.every = 0})), HasSubstr("every = 0"));
  EXPECT_THAT(refusal(control_.order(Place::kRun, {.code = 0})), HasSubstr("code = 0"));
  EXPECT_THAT(refusal(control_.order(Place::kRun, {.code = 32})), HasSubstr("code = 32"));
  EXPECT_THAT(refusal(control_.order(Place::kRun, {.text = std::string(256, 'x')})),
              HasSubstr("256 bytes"));
  EXPECT_THAT(refusal(control_.order(Place::kRun, {.fault = Fault::kHang, .sticky = true})),
              HasSubstr("sticky"));
  EXPECT_THAT(refusal(control_.order(Place::kCompile, {.batch = 2})), HasSubstr("batch = 2"));
  EXPECT_THAT(refusal(control_.order(Place::kCreate, {.fault = Fault::kNan})),
              HasSubstr("only a run has outputs"));
  EXPECT_THAT(refusal(control_.set_devices(0)), HasSubstr("devices = 0"));
  EXPECT_THAT(refusal(control_.set_devices(9)), HasSubstr("[1, 8]"));
  EXPECT_THAT(refusal(control_.set_delay(-1us)), HasSubstr("delay = -1 us"));
  EXPECT_THAT(refusal(control_.set_delay(1h + 1us)), HasSubstr("an hour"));
  EXPECT_EQ(control_.left(Place::kRun), 0u) << "none of them was taken";
  EXPECT_EQ(refusal(control_.order(Place::kRun, {.text = std::string(255, 'x')})), "accepted");
}

TEST_F(ControlFileTest, IsOneForAllWhoOpenIt) {
  const auto other = Control::open(path_);
  ASSERT_TRUE(other) << other.error().message;
  order(Place::kCompile, {.count = 7});
  EXPECT_EQ(other->left(Place::kCompile), 7u);
}

TEST_F(ControlFileTest, IsSetBackWhenItIsCreatedAgain) {
  order(Place::kRun, {.count = 7});
  control_.set_gone(1);
  const Control again = created(path_);
  EXPECT_EQ(control_.left(Place::kRun), 0u) << "also under those who had it open";
  const auto runtime = registered();
  EXPECT_EQ(why_not(*runtime, spec()), "");
}

TEST_F(ControlFileTest, IsNotMadeByOpeningIt) {
  const auto none = Control::open("/nonexistent/control");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  const auto nowhere = Control::create("/nonexistent/control");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kUnavailable);
}

// What a Python program says, run with tests/support in its path.
std::string python(const std::string& program) {
  const std::string command = std::string("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=") +
                              GRADUS_TEST_SUPPORT + " " + GRADUS_PYTHON + " -c '" + program +
                              "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string said;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    said.append(buffer.data(), size);
  }
  pclose(pipe);
  return said;
}

TEST_F(ControlFileTest, PythonsReaderHasEveryWordInItsPlace) {
  std::ostringstream layout;
  const auto word = [&](const std::string& name, std::size_t at, std::size_t size) {
    layout << name << ' ' << at << ' ' << size << '\n';
  };
#define GRADUS_WORD(name) word(#name, offsetof(Layout, name), sizeof(Layout::name))
  GRADUS_WORD(magic);
  GRADUS_WORD(version);
  GRADUS_WORD(devices);
  GRADUS_WORD(gone);
  GRADUS_WORD(delay_us);
  GRADUS_WORD(releases);
  const std::array<const char*, kPlaces> places = {"create", "compile", "run"};
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::string place = places[i];
    const std::size_t base = offsetof(Layout, orders) + i * sizeof(OrderWords);
#define GRADUS_ORDER_WORD(name) \
  word(place + "." #name, base + offsetof(OrderWords, name), sizeof(OrderWords::name))
    GRADUS_ORDER_WORD(fault);
    GRADUS_ORDER_WORD(skip);
    GRADUS_ORDER_WORD(count);
    GRADUS_ORDER_WORD(every);
    GRADUS_ORDER_WORD(turn);
    GRADUS_ORDER_WORD(devices);
    GRADUS_ORDER_WORD(code);
    GRADUS_ORDER_WORD(sticky);
    GRADUS_ORDER_WORD(text);
  }
  GRADUS_WORD(last_pid);
  GRADUS_WORD(run_batch);
  GRADUS_WORD(created);
  GRADUS_WORD(compiled);
  GRADUS_WORD(runs);
  GRADUS_WORD(ok);
  GRADUS_WORD(hung);
  GRADUS_WORD(injected);
  GRADUS_WORD(injected_at_ns);
#undef GRADUS_WORD
#undef GRADUS_ORDER_WORD
  EXPECT_EQ(python("import fault_control\n"
                   "for word in fault_control.layout(): print(*word)"),
            layout.str());
}

TEST_F(ControlFileTest, PythonOrdersWhatThisOrders) {
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec());
  EXPECT_EQ(python("import fault_control\n"
                   "control = fault_control.Control(\"" +
                   path_ +
                   "\")\n"
                   "control.order(\"run\", \"error\", skip=1, count=2, text=\"by Python\")"),
            "");
  EXPECT_EQ(error_of_run(*backend), "");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(error_of_run(*backend), HasSubstr("by Python"));
  EXPECT_EQ(error_of_run(*backend), "");
}

TEST_F(ControlFileTest, PythonMakesTheFileAndReadsTheCounters) {
  const std::string begin = "import fault_control\n";
  EXPECT_EQ(python(begin + "fault_control.Control(\"" + path_ + "\", create=True, devices=2)"), "");
  const auto opened = Control::open(path_);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto runtime = registered();
  const auto backend = loaded(*runtime, spec(fashion(), {1}));
  const Counters counters = control_.counters();
  EXPECT_EQ(python(begin + "c = fault_control.Control(\"" + path_ +
                   "\").counters()\nprint(c[\"created\"], c[\"runs\"], c[\"last_pid\"])"),
            "1 " + std::to_string(counters.runs) + " " + std::to_string(getpid()) + "\n");
}

}  // namespace
}  // namespace gradus::fault
