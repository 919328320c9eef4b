#include "worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "started.h"
#include "worker/isolated_session.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Worker, AnswersWithWhatItsSessionComputes) {
  Started started;
  const auto answer = started.run({1, 2, 3});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(floats(answer->at(0)), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(answer->at(0).shape, (Shape{3}));
}

TEST(Worker, ARunThatSucceedsEndsTheFailuresInARow) {
  Started started;
  started.worker->note_run(false, TimePoint());
  EXPECT_FALSE(started.run({kBlame}));
  EXPECT_EQ(started.worker->failed_runs().in_a_row, 1);
  EXPECT_TRUE(started.run({1}));
  EXPECT_EQ(started.worker->failed_runs().in_a_row, 0);
}

TEST(Worker, TellsWhatItLoaded) {
  Started started;
  const auto session = started.worker->load(fake(), kLong).value();
  EXPECT_EQ(session.facts.signature.inputs.at(0).name, "x");
  EXPECT_EQ(session.facts.signature.outputs.at(0).shape, (Shape{-1}));
  EXPECT_EQ(session.facts.provider_used, "FakeExecutionProvider");
  EXPECT_EQ(session.facts.placement.at(0).nodes, 1U);
}

TEST(Worker, ALoadThatFailsSaysWhyAndLeavesItAlive) {
  Started started;
  const auto failed = started.worker->load(fake("none"), kLong);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("no device"));
  EXPECT_TRUE(started.run({1}));
}

TEST(Worker, SlotsGrowForLargerRequests) {
  Started started;
  for (const std::size_t count : {1UL, 100'000UL, 10UL, 2'000'000UL}) {
    const std::vector<float> values(count, 3);
    const auto answer = started.run(values);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(floats(answer->at(0)), std::vector<float>(count, 6));
  }
}

TEST(Worker, EmptyTensorsPass) {
  Started started;
  const auto answer = started.run({});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at(0).shape, (Shape{0}));
}

TEST(Worker, AnOutputStaysAsItIsWhileSomebodyHoldsIt) {
  Started started;
  std::vector<std::vector<Tensor>> held;
  for (int i = 1; i <= 10; ++i) held.push_back(started.run({static_cast<float>(i)}).value());
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(floats(held[static_cast<std::size_t>(i) - 1].at(0)).at(0), static_cast<float>(2 * i));
  }
}

TEST(Worker, AnOutputOutlivesItsWorker) {
  auto started = std::make_unique<Started>();
  const auto answer = started->run({21}).value();
  started.reset();
  EXPECT_EQ(floats(answer.at(0)).at(0), 42);
}

TEST(Worker, RunsOverlapAndPingsAreAnsweredMeanwhile) {
  Started started;
  std::vector<std::jthread> threads;
  std::atomic<int> good = 0;
  const auto run = [&] { good += started.run({kMeet, 8}).has_value(); };
  for (int i = 0; i < 7; ++i) threads.emplace_back(run);
  EXPECT_TRUE(started.worker->ping(kLong));
  EXPECT_EQ(good, 0);
  threads.emplace_back(run);
  threads.clear();
  EXPECT_EQ(good, 8);
}

TEST(Worker, AnErrorOfTheSessionKeepsItsCode) {
  Started started;
  EXPECT_EQ(started.run({kBlame}).error().code, Code::kInvalid);
  EXPECT_EQ(started.run({kNoMemory}).error().code, Code::kUnavailable);
  EXPECT_TRUE(started.run({1}));
}

TEST(Worker, ARequestThatIsToBlameIsNoFailedRunOfIt) {
  const auto worker = Worker::start(child()).value();
  const auto loaded = worker->load(fake("failing"), kLong).value();
  IsolatedSession session(fake("failing"), 1s, loaded.facts, steady_clock());
  ASSERT_TRUE(session.move_to(worker, loaded));
  const std::vector<float> fails = {1};
  const std::vector<float> blames = {kBlame};
  EXPECT_FALSE(session.run(std::vector{view_of(blames)}, kFirst));
  EXPECT_EQ(worker->failed_runs().in_a_row, 0);
  EXPECT_FALSE(session.run(std::vector{view_of(fails)}, kFirst));
  EXPECT_EQ(worker->failed_runs().in_a_row, 1);
  EXPECT_FALSE(session.run(std::vector{view_of(blames)}, kFirst));
  EXPECT_EQ(worker->failed_runs().in_a_row, 1);
}

TEST(Worker, AnUnloadedSessionIsGone) {
  Started started;
  started.worker->unload(started.session, kLong);
  EXPECT_FALSE(started.run({1}));
}

struct Fault {
  const char* name;
  Command command;
  const char* text;
  Loss::Cause cause;
};

class WorkerFault : public testing::TestWithParam<Fault> {};

TEST_P(WorkerFault, EndsTheRunAtOnceAndSaysWhatHappened) {
  Started started;
  const bool hangs = GetParam().cause == Loss::Cause::kHung;
  const TimePoint begun = steady_clock().now();
  const auto answer =
      started.run({static_cast<float>(GetParam().command)}, hangs ? Duration(300ms) : kLong);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kWorkerLost);
  EXPECT_THAT(answer.error().message,
              HasSubstr("worker " + std::to_string(started.worker->pid()) + " of device 'test:0'"));
  EXPECT_THAT(answer.error().message, HasSubstr(GetParam().text));
  EXPECT_EQ(started.worker->loss()->cause, GetParam().cause);
  EXPECT_TRUE(started.worker->wait_dead(kLong));
  EXPECT_LT(steady_clock().now() - begun, kLong);
  const auto after = started.run({1});  // nothing more from it
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(
    All, WorkerFault,
    testing::Values(Fault{"Segv", kCrash, "was killed by signal 11", Loss::Cause::kDied},
                    Fault{"Exit", kExit, "exited with 7", Loss::Cause::kDied},
                    Fault{"Sleep", kSleep, "hung for 300 ms and was killed", Loss::Cause::kHung},
                    Fault{"Spin", kSpin, "hung for 300 ms and was killed", Loss::Cause::kHung},
                    Fault{"WriteToInput", kWriteInput, "was killed by signal 11",
                          Loss::Cause::kDied}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Worker, AKillIsToldToEveryRunAtOnce) {
  Started started;
  std::vector<std::jthread> threads;
  std::atomic<int> told = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto answer = started.run({kSleep});
      told += !answer && answer.error().message.find("signal 9") != std::string::npos;
    });
  }
  std::this_thread::yield();
  kill(started.worker->pid(), SIGKILL);
  threads.clear();
  EXPECT_EQ(told, 4);
}

TEST(Worker, AHangIsToldToEveryRunAtOnceEvenWhereItDoesNotDie) {
  Worker::Options lasting = child();
  lasting.kill = [](int) {};
  Started started(lasting);
  const TimePoint begun = steady_clock().now();
  Result<std::vector<Tensor>> other;
  std::jthread thread([&] { other = started.run({kSleep}, 10 * kLong); });
  ASSERT_TRUE(within(kLong, [&] { return started.worker->idle().channels == 0; }));
  ASSERT_FALSE(started.run({kSleep}, 100ms));
  thread.join();
  EXPECT_LT(steady_clock().now() - begun, kLong);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kWorkerLost);
  EXPECT_THAT(other.error().message, HasSubstr("hung for 100 ms"));
  EXPECT_FALSE(started.worker->wait_dead(Duration::zero()));
  kill(started.worker->pid(), SIGKILL);
  EXPECT_TRUE(started.worker->wait_dead(kLong));
}

TEST(Worker, ADeathThatTakesTimeIsADeath) {
  Started started;
  Result<std::vector<Tensor>> answer;
  std::jthread thread([&] { answer = started.run({kHoard}); });
  ASSERT_TRUE(within(kLong, [&] { return started.opens("hoard") == 1; }));
  kill(started.worker->pid(), SIGKILL);
  thread.join();
  EXPECT_EQ(started.worker->loss()->cause, Loss::Cause::kDied);
  EXPECT_THAT(answer.error().message, HasSubstr("was killed by signal 9"));
}

TEST(Worker, AStoppedProcessIsHung) {
  Started started;
  stop_process(started.worker->pid());
  const auto answer = started.run({1}, 200ms);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("hung for 200 ms and was killed"));
  EXPECT_TRUE(started.worker->wait_dead(kLong));
}

TEST(Worker, AStoppedProcessAnswersNoPing) {
  Started started;
  stop_process(started.worker->pid());
  EXPECT_FALSE(started.worker->ping(100ms));
}

TEST(Worker, ADeathBeforeTheRunIsToldByIt) {
  Started started;
  kill(started.worker->pid(), SIGKILL);
  const auto answer = started.run({1});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("was killed by signal 9"));
}

TEST(Worker, LeavesInOrderWhenAskedTo) {
  Started started;
  EXPECT_TRUE(started.worker->stop(kLong));
  EXPECT_EQ(started.worker->loss()->cause, Loss::Cause::kStopped);
}

TEST(Worker, HoldsNoDescriptorButItsOwn) {
  const Fd inherited(dup(0));  // without close-on-exec
  Started started;
  std::size_t others = 0;
  std::size_t sockets = 0;
  const auto look = [&] {
    others = sockets = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(started.worker->pid()) + "/fd")) {
      std::error_code ignored;
      const auto target = std::filesystem::read_symlink(entry.path(), ignored).string();
      const int fd = std::stoi(entry.path().filename());
      sockets += target.starts_with("socket:");
      others += fd > 3 && !target.starts_with("socket:");
    }
  };
  // Control and one channel; what is just being closed has no target.
  EXPECT_TRUE(within(kLong,
                     [&] {
                       look();
                       return sockets == 2 && others == 0;
                     }))
      << sockets << " sockets and " << others << " others";
}

TEST(Worker, IsConfined) {
  Started started;
  EXPECT_THAT(started.status_line("NoNewPrivs"), HasSubstr("1"));
  std::ifstream in("/proc/" + std::to_string(started.worker->pid()) + "/limits");
  std::string core;
  while (std::getline(in, core) && !core.starts_with("Max core file size")) continue;
  rlimit ours{};
  getrlimit(RLIMIT_CORE, &ours);
  EXPECT_THAT(core, testing::ContainsRegex(ours.rlim_max == 0 ? "size +0 +0" : "size +1 +1"))
      << "0 stops no core that is piped to a program";
}

// The first child of a process; -1: it has none.
pid_t child_of(pid_t pid) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream in(task.path() / "children");
    if (pid_t found = -1; in >> found) return found;
  }
  return -1;
}

// Its descriptors come and go while it starts: posix_spawn() returns before those that are closed
// on exec are closed, and the loader opens libraries.
std::size_t sockets_of(pid_t pid) {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += target.starts_with("socket:");
  }
  return count;
}

Fd pidfd_of(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

TEST(Worker, WhatItStartsHoldsNoSocketOfItAndEndsWithIt) {
  for (const Command end : {kSleep, kCrash}) {
    Started started;
    ASSERT_TRUE(started.run({kStart}));
    const pid_t other = child_of(started.worker->pid());
    const Fd lives = pidfd_of(other);
    ASSERT_TRUE(lives);
    EXPECT_TRUE(within(kLong, [&] { return sockets_of(other) == 0; }));
    EXPECT_EQ(wait_readable({lives.get()}, Duration::zero()), 0U);
    EXPECT_FALSE(started.run({static_cast<float>(end)}, 100ms));  // killed, or dies by itself
    EXPECT_TRUE(started.worker->wait_dead(kLong));
    EXPECT_EQ(wait_readable({lives.get()}, kLong), 1U);
  }
}

TEST(Worker, DiesWithItsServer) {
  auto [here, there] = Socket::pair().value();
  auto parent = Process::spawn("/proc/self/exe", {"parent"}, std::move(there)).value();
  const auto message = here.receive();
  ASSERT_TRUE(message && *message);
  const Fd orphan = pidfd_of(static_cast<pid_t>((*message)->request));
  ASSERT_TRUE(orphan);
  EXPECT_EQ(wait_readable({orphan.get()}, Duration::zero()), 0U);  // lives
  parent->kill();
  EXPECT_EQ(wait_readable({orphan.get()}, kLong), 1U);
}

TEST(Worker, AProgramThatCannotBeStartedIsAnError) {
  Worker::Options options = child();
  options.executable = "/nonexistent/gradus";
  EXPECT_THAT(Worker::start(options).error().message, HasSubstr("cannot start"));
}

TEST(Worker, AnotherVersionsBinaryIsRefused) {
  EXPECT_THAT(Worker::start(child("otherworker")).error().message, HasSubstr("exited with 1"));
}

}  // namespace
}  // namespace gradus::worker
