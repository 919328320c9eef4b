// Faults that end a process, or stay with it until it ends: seen from outside, on a child.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "fixture.h"

namespace gradus::fault {
namespace {

using ::testing::HasSubstr;

// A running fault_ep_child; killed and reaped at the latest by the destructor.
class Child {
 public:
  explicit Child(const std::vector<std::string>& steps) {
    std::vector<std::string> words = {GRADUS_FAULT_CHILD, GRADUS_FAULT_LIBRARY, fashion()};
    words.insert(words.end(), steps.begin(), steps.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      close(ends[1]);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::fclose(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  /// The next step's line; empty when the process ended without one.
  std::string line() {
    char buffer[4096];
    if (std::fgets(buffer, sizeof buffer, output_) == nullptr) return {};
    std::string said = buffer;
    said.pop_back();
    return said;
  }

  /// Waits for the end: `exit 0`, `signal 11`.
  std::string end() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    return "exit " + std::to_string(WEXITSTATUS(status));
  }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

struct End {
  const char* name;
  Fault fault;
  const char* how;
};

class DeadlyFault : public FaultTest, public ::testing::WithParamInterface<End> {};

TEST_P(DeadlyFault, EndsTheProcessThatRunsAndNoOther) {
  const auto runtime = registered();
  const auto bystander = loaded(*runtime, spec());
  order(Place::kRun, {.fault = GetParam().fault, .skip = 2});  // the probe and one more
  Child child({"load", "run", "run"});
  EXPECT_EQ(child.line(), "ok");
  EXPECT_EQ(child.line(), "ok");
  EXPECT_EQ(child.line(), "") << "it never answers";
  EXPECT_EQ(child.end(), GetParam().how);
  EXPECT_EQ(control_.counters().injected, 1u);
  EXPECT_EQ(error_of_run(*bystander), "");
  Child next({"load", "run"});
  EXPECT_EQ(next.line(), "ok");
  EXPECT_EQ(next.line(), "ok");
  EXPECT_EQ(next.end(), "exit 0");
}

TEST_P(DeadlyFault, EndsAProcessThatLoads) {
  for (const Place place : {Place::kCreate, Place::kCompile}) {
    order(place, {.fault = GetParam().fault});
    Child child({"load"});
    EXPECT_EQ(child.line(), "");
    EXPECT_EQ(child.end(), GetParam().how);
  }
}

INSTANTIATE_TEST_SUITE_P(Process, DeadlyFault,
                         ::testing::Values(End{"Segv", Fault::kSegv, "signal 11"},
                                           End{"Abort", Fault::kAbort, "signal 6"},
                                           End{"Exit", Fault::kExit, "exit 3"}),
                         [](const auto& end) { return end.param.name; });

class StickyFault : public FaultTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(StickyFault, FailsEverythingInThatProcessUntilItEnds) {
  const auto runtime = registered();
  const auto bystander = loaded(*runtime, spec());
  const char* said = GetParam() == Fault::kError ? "CUDA failure 719: unspecified launch failure"
                                                 : "Failed to allocate memory";
  order(Place::kRun, {.fault = GetParam(),
                      .skip = 1,
                      .text = "CUDA failure 719: unspecified launch failure",
                      .sticky = true});
  Child child({"load", "run", "run", "load", "load"});
  EXPECT_EQ(child.line(), "ok");
  for (int i = 0; i < 4; ++i) EXPECT_THAT(child.line(), HasSubstr(said)) << "step " << i;
  EXPECT_EQ(child.end(), "exit 0");
  EXPECT_EQ(control_.counters().injected, 1u) << "all the others are the same fault";
  EXPECT_EQ(error_of_run(*bystander), "") << "another process";
  Child next({"load", "run"});
  EXPECT_EQ(next.line(), "ok");
  EXPECT_EQ(next.line(), "ok");
}

INSTANTIATE_TEST_SUITE_P(Process, StickyFault,
                         ::testing::Values(Fault::kError, Fault::kOutOfMemory),
                         [](const auto& fault) {
                           return fault.param == Fault::kError ? "Error" : "OutOfMemory";
                         });

using StickyProcess = FaultTest;

TEST_F(StickyProcess, StaysSoWhenTheLibraryIsRegisteredAnew) {
  order(Place::kCreate, {.text = "stays", .sticky = true});
  Child child({"load", "register", "load"});
  EXPECT_THAT(child.line(), HasSubstr("stays"));
  control_.clear();
  EXPECT_EQ(child.line(), "ok");
  EXPECT_THAT(child.line(), HasSubstr("stays"));
  EXPECT_EQ(control_.counters().injected, 1u);
}

class HungProcess : public FaultTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(HungProcess, AnswersNothingUntilItIsKilled) {
  order(Place::kRun, {.fault = GetParam(), .skip = 1});
  Child child({"load", "run"});
  EXPECT_EQ(child.line(), "ok");
  ASSERT_TRUE(eventually([&] { return control_.counters().hung == 1; }));
  EXPECT_EQ(control_.counters().last_pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0) << "it lives";
  kill(child.pid(), SIGKILL);
  EXPECT_EQ(child.line(), "");
  EXPECT_EQ(child.end(), "signal 9");
}

TEST_P(HungProcess, AnswersWhenItIsReleased) {
  order(Place::kRun, {.fault = GetParam(), .skip = 1});
  Child child({"load", "run"});
  ASSERT_TRUE(eventually([&] { return control_.counters().hung == 1; }));
  control_.release();
  EXPECT_EQ(child.line(), "ok");
  EXPECT_EQ(child.line(), "ok");
  EXPECT_EQ(child.end(), "exit 0");
}

INSTANTIATE_TEST_SUITE_P(Process, HungProcess, ::testing::Values(Fault::kHang, Fault::kSpin),
                         [](const auto& fault) {
                           return fault.param == Fault::kHang ? "Asleep" : "Spinning";
                         });

}  // namespace
}  // namespace gradus::fault
