#include "worker/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "started.h"

namespace gradus::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// What a level has heard.
class Level {
 public:
  LevelHooks hooks() {
    return {[this](const Loss& loss) { heard(&loss); }, [this] { heard(nullptr); }};
  }
  /// False: not within kLong.
  bool wait_lost(int count) {
    return wait([&] { return lost_ >= count; });
  }
  bool wait_back(int count) {
    return wait([&] { return back_ >= count; });
  }
  Loss last() {
    const MutexLock lock(mutex_);
    return last_;
  }
  int back() {
    const MutexLock lock(mutex_);
    return back_;
  }
  int lost() {
    const MutexLock lock(mutex_);
    return lost_;
  }

 private:
  void heard(const Loss* loss) {
    const MutexLock lock(mutex_);
    if (loss != nullptr) {
      last_ = *loss;
      ++lost_;
    } else {
      ++back_;
    }
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& done) {
    const TimePoint end = steady_clock().now() + kLong;
    const MutexLock lock(mutex_);
    while (!done()) {
      if (!changed_.wait_for(mutex_, 100ms) && steady_clock().now() > end) return false;
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  Loss last_;
  int lost_ = 0;
  int back_ = 0;
};

Supervisor::Options quick() {
  Supervisor::Options options;
  options.worker = child();
  options.restart.first = 1ms;
  options.restart.loop_deaths = 1'000'000;
  return options;
}

Result<std::vector<Tensor>> run(runtime::Backend& backend, float value) {
  const std::vector<float> values = {value};
  return backend.run(std::vector{view_of(values)}, std::vector<std::size_t>{0});
}

float answer(runtime::Backend& backend, float value) {
  const auto tensors = run(backend, value);
  EXPECT_TRUE(tensors) << tensors.error().message;
  return tensors ? floats(tensors->at(0)).at(0) : 0;
}

void kill_worker(const Supervisor& supervisor) { kill(supervisor.status().pid.value(), SIGKILL); }

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

std::size_t children() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "children");
    for (pid_t pid; in >> pid;) ++count;
  }
  return count;
}

std::size_t shared_mappings() {
  std::ifstream in("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.find("memfd:") != std::string::npos;
  return count;
}

std::size_t resident_kib() {
  std::ifstream in("/proc/self/statm");
  std::size_t ignored = 0;
  std::size_t pages = 0;
  in >> ignored >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

// False: not within kLong.
bool comes_true(const std::function<bool()>& done) { return within(kLong, done); }

bool comes_to(const Supervisor& supervisor, WorkerState state) {
  return comes_true([&] { return supervisor.status().state == state; });
}

TEST(Supervisor, StartsItsWorkerForTheFirstLoad) {
  Supervisor supervisor(quick(), steady_clock());
  EXPECT_EQ(supervisor.status().state, WorkerState::kIdle);
  EXPECT_FALSE(supervisor.status().pid);
  const auto loaded = supervisor.load(fake(), 1s, {}).value();
  EXPECT_EQ(answer(*loaded.backend, 4), 8);
  EXPECT_EQ(supervisor.status().state, WorkerState::kRunning);
  EXPECT_EQ(supervisor.status().restarts, 0U);
}

TEST(Supervisor, AllLevelsOfADeadWorkerHearOfItAndComeBack) {
  Supervisor supervisor(quick(), steady_clock());
  Level one;
  Level other;
  const auto a = supervisor.load(fake(), 1s, one.hooks()).value();
  const auto b = supervisor.load(fake(), 1s, other.hooks()).value();
  kill_worker(supervisor);
  ASSERT_TRUE(one.wait_back(1) && other.wait_back(1));
  EXPECT_EQ(one.lost(), 1);
  EXPECT_EQ(other.lost(), 1);
  EXPECT_EQ(one.last().cause, Loss::Cause::kDied);
  EXPECT_THAT(one.last().text, HasSubstr("was killed by signal 9"));
  EXPECT_EQ(answer(*a.backend, 1), 2);
  EXPECT_EQ(answer(*b.backend, 2), 4);
  EXPECT_EQ(supervisor.status().restarts, 1U);
  EXPECT_EQ(supervisor.status().last_fault->cause, Loss::Cause::kDied);
}

TEST(Supervisor, AnIdleWorkerThatHangsIsReplaced) {
  auto options = quick();
  options.ping_every = 10ms;
  options.ping_limit = 1s;
  Supervisor supervisor(options, steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  stop_process(supervisor.status().pid.value());
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(level.last().cause, Loss::Cause::kHung);
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
}

TEST(Supervisor, ARunThatHangsIsCutAndItsWorkerReplaced) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 10ms, level.hooks()).value();
  EXPECT_EQ(answer(*loaded.backend, 1), 2);  // the first of its shape might take a minute
  const auto hung = run(*loaded.backend, kSleep);
  ASSERT_FALSE(hung);
  EXPECT_THAT(hung.error().message,
              testing::ContainsRegex("hung for [1-9][0-9]{3} ms and was killed"))
      << "1 s, or four times the first run";
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(level.last().cause, Loss::Cause::kHung);
}

TEST(Supervisor, ALargeRequestHasTimeByItsSize) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 10ms, level.hooks()).value();
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  std::vector<float> many(1 << 20);
  many[0] = kSlow;
  const auto large = loaded.backend->run(std::vector{view_of(many)}, kFirst);
  EXPECT_TRUE(large) << large.error().message;
}

TEST(Supervisor, AFirstRunThatWasCutHasMoreTimeWhenItIsSentAgain) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 10ms, level.hooks()).value();
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  const std::vector<float> hangs = {kSleep, 0};
  const auto cut = loaded.backend->run(std::vector{view_of(hangs)}, kFirst);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("hung for"));
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  const std::vector<float> slow = {kSlow, 0};
  const auto again = loaded.backend->run(std::vector{view_of(slow)}, kFirst);
  EXPECT_TRUE(again) << again.error().message;
}

TEST(Supervisor, AStickyFaultReplacesTheWorkerAtOnce) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  EXPECT_THAT(run(*loaded.backend, kSticky).error().message, HasSubstr("CUDA failure 700"));
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(level.last().cause, Loss::Cause::kSticky);
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
}

// Suspects a worker after three failures that lie 1 ms apart.
Supervisor::Options suspicious() {
  auto options = quick();
  options.ping_every = 1ms;
  options.restart.failed_runs = 3;
  options.restart.failed_for = 1ms;
  return options;
}

TEST(Supervisor, AWorkerInWhichEveryRunFailsIsReplaced) {
  Supervisor supervisor(suspicious(), steady_clock());
  Level one;
  Level other;
  const auto a = supervisor.load(fake(), 1s, one.hooks()).value();
  const auto b = supervisor.load(fake(), 1s, other.hooks()).value();
  const pid_t pid = supervisor.status().pid.value();
  ASSERT_TRUE(comes_true([&] {
    run(*a.backend, kBreak);
    return one.lost() > 0;
  }));
  EXPECT_EQ(one.last().cause, Loss::Cause::kFailures);
  EXPECT_THAT(one.last().text, HasSubstr("every run in it fails: CUBLAS failure 13"));
  ASSERT_TRUE(one.wait_back(1) && other.wait_back(1));
  EXPECT_NE(supervisor.status().pid, pid);
  EXPECT_EQ(to_string(supervisor.status().last_fault->cause), "failures");
  EXPECT_EQ(answer(*b.backend, 1), 2);
}

TEST(Supervisor, AModelThatFailsAloneCostsTheOthersNothing) {
  Supervisor supervisor(suspicious(), steady_clock());
  Level bad;
  Level idle;
  const auto failing = supervisor.load(fake("failing"), 1s, bad.hooks()).value();
  auto good = supervisor.load(fake(), 1s, idle.hooks()).value();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(run(*failing.backend, 1));
  EXPECT_EQ(idle.lost(), 0) << idle.last().text;
  good.backend.reset();
  EXPECT_TRUE(comes_true([&] {
    run(*failing.backend, 1);
    return bad.lost() > 0;
  })) << "nothing is lost with it";
}

TEST(Supervisor, AModelThatRefusesItsSampleProvesNothing) {
  Supervisor supervisor(suspicious(), steady_clock());
  Level bad;
  Level refusing;
  const auto one = supervisor.load(fake("refusing"), 1s, refusing.hooks()).value();
  const auto other = supervisor.load(fake("failing"), 1s, bad.hooks()).value();
  EXPECT_TRUE(comes_true([&] {
    run(*other.backend, 1);
    return refusing.lost() > 0;
  }));
  EXPECT_EQ(refusing.last().cause, Loss::Cause::kFailures);
}

TEST(Supervisor, WantOfMemoryReplacesTheWorkerOnlyWhenItRepeats) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  const pid_t pid = supervisor.status().pid.value();
  run(*loaded.backend, kNoMemory);
  run(*loaded.backend, kNoMemory);
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  run(*loaded.backend, kNoMemory);
  run(*loaded.backend, kNoMemory);
  EXPECT_EQ(supervisor.status().pid, pid);
  run(*loaded.backend, kNoMemory);
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(level.last().cause, Loss::Cause::kOutOfMemory);
}

TEST(Supervisor, ALevelThatIsLostAnswersAtOnceWithTheReason) {
  auto options = quick();
  options.restart.first = 1h;
  options.restart.cap = 1h;
  Supervisor supervisor(options, steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  kill_worker(supervisor);
  ASSERT_TRUE(level.wait_lost(1));
  const Error error = run(*loaded.backend, 1).error();
  EXPECT_THAT(error.message, HasSubstr("was killed by signal 9"));
  EXPECT_EQ(error.code, Code::kNotFound) << "a loss, no failure of the run's own";
}

TEST(Supervisor, ManyDeathsAreACrashLoopAndSaySo) {
  auto options = quick();
  options.restart.loop_deaths = 3;
  options.restart.loop_pause = 1h;
  Supervisor supervisor(options, steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(level.wait_back(i - 1));
    kill_worker(supervisor);
    ASSERT_TRUE(level.wait_lost(i));
  }
  EXPECT_TRUE(comes_to(supervisor, WorkerState::kCrashLoop));
  EXPECT_FALSE(supervisor.load(fake(), 1s, {}));  // does not wait for the pause
}

TEST(Supervisor, AWorkerThatDiesWhileItLoadsFailsTheLoadAlone) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto good = supervisor.load(fake(), 1s, level.hooks()).value();
  const auto bad = supervisor.load(fake("crash"), 1s, {});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kWorkerLost) << "it may be why";
  EXPECT_THAT(bad.error().message, HasSubstr("signal 9"));
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(answer(*good.backend, 1), 2);
}

// A file without which a model's load ends its worker, or hangs, and the supervisors that it meets.
class Suspect : public testing::Test {
 protected:
  Suspect() { put(); }
  ~Suspect() override {
    remove();
    std::filesystem::remove(file_ + ".awaited");
  }
  void put() { std::ofstream(file_).put('x'); }
  void remove() { std::filesystem::remove(file_); }
  bool is_awaited() const { return std::filesystem::exists(file_ + ".awaited"); }

  LevelHooks suspect_hooks() {
    LevelHooks hooks = suspect_.hooks();
    hooks.suspect = [this](Seat seat) { own_.adopt(std::move(seat)); };
    return hooks;
  }
  static Supervisor::Options cutting_after(Duration limit) {
    auto options = quick();
    options.reload_limit = limit;
    return options;
  }

  const std::string file_ = testing::TempDir() + "/gradus_suspect_" + std::to_string(getpid());
  Level suspect_;
  Level other_;
  Supervisor own_{quick(), steady_clock()};
  Supervisor shared_{quick(), steady_clock()};
};

TEST_F(Suspect, ALoadThatKillsItsWorkerAgainIsHandedOverAndKillsNobodyElses) {
  const auto bad = shared_.load(fake("crash-without/" + file_), 1s, suspect_hooks()).value();
  const auto good = shared_.load(fake(), 1s, other_.hooks()).value();
  remove();
  kill_worker(shared_);
  ASSERT_TRUE(comes_true([&] { return own_.status().restarts >= 3; }));
  ASSERT_TRUE(comes_true([&] { return other_.back() > 0 && shared_.status().restarts == 2; }));
  EXPECT_EQ(other_.lost(), 2) << "by the kill, and by the load";
  EXPECT_EQ(answer(*good.backend, 1), 2);
  EXPECT_EQ(run(*bad.backend, 1).error().code, Code::kNotFound);
  EXPECT_EQ(suspect_.last().cause, Loss::Cause::kDied);
  put();
  ASSERT_TRUE(suspect_.wait_back(1));
  EXPECT_EQ(answer(*bad.backend, 1), 2);
  EXPECT_EQ(shared_.status().restarts, 2U);

  remove();
  kill_worker(shared_);  // it has no seat there any more
  ASSERT_TRUE(other_.wait_lost(3) && comes_to(shared_, WorkerState::kRunning));
  EXPECT_EQ(answer(*bad.backend, 1), 2);
}

TEST_F(Suspect, ALoadThatHangsWhereItWentWellIsCutSoon) {
  Supervisor shared(cutting_after(2s), steady_clock());
  const auto bad = shared.load(fake("hang-without/" + file_), 1s, suspect_hooks()).value();
  const auto good = shared.load(fake(), 1s, other_.hooks()).value();
  remove();
  kill_worker(shared);
  ASSERT_TRUE(suspect_.wait_lost(2));
  EXPECT_EQ(suspect_.last().cause, Loss::Cause::kHung);
  ASSERT_TRUE(comes_true([&] { return own_.status().state == WorkerState::kStarting; }));
  ASSERT_TRUE(comes_true([&] { return run(*good.backend, 1).has_value(); }));
  EXPECT_EQ(shared.status().restarts, 2U);
}

// Steady, and moved on at will.
class JumpingClock final : public Clock {
 public:
  TimePoint now() const override { return steady_clock().now() + Duration(jumped_); }
  void jump(Duration by) { jumped_ += by.count(); }

 private:
  std::atomic<Duration::rep> jumped_{0};
};

TEST_F(Suspect, NobodyWaitsBehindALoadThatMayTakeLonger) {
  JumpingClock clock;
  Supervisor shared(quick(), clock);
  remove();
  std::optional<Result<runtime::Loaded>> bad;
  std::thread loader(
      [&] { bad = shared.load(fake("hang-without/" + file_), 1s, suspect_hooks()); });
  EXPECT_TRUE(comes_true([&] { return is_awaited(); }));
  clock.jump(1min);
  put();
  loader.join();
  ASSERT_TRUE(*bad) << bad->error().message;
  const auto good = shared.load(fake(), 1s, other_.hooks()).value();
  remove();
  kill_worker(shared);
  ASSERT_TRUE(other_.wait_back(1));
  EXPECT_EQ(other_.lost(), 1) << "the other has not been cut yet";
  EXPECT_EQ(answer(*good.backend, 1), 2);
}

TEST_F(Suspect, JoinsWhatRunsAlreadyWhereItIsHandedTo) {
  const auto first = own_.load(fake(), 1s, other_.hooks()).value();
  LevelHooks hooks = suspect_hooks();
  hooks.suspect = [this](Seat seat) {
    put();
    own_.adopt(std::move(seat));
  };
  const auto bad = shared_.load(fake("crash-without/" + file_), 1s, hooks).value();
  auto good = shared_.load(fake(), 1s, {[](const Loss&) {}, [] {}, {}});
  remove();
  kill_worker(shared_);
  ASSERT_TRUE(suspect_.wait_back(1));
  EXPECT_EQ(answer(*bad.backend, 1), 2);
  EXPECT_EQ(answer(*first.backend, 1), 2);
  EXPECT_EQ(own_.status().restarts, 0U);
  good->backend.reset();
  EXPECT_TRUE(comes_to(shared_, WorkerState::kIdle)) << "it has nothing to load any more";
}

TEST_F(Suspect, StaysWhereItIsAlone) {
  const auto bad = shared_.load(fake("crash-without/" + file_), 1s, suspect_hooks()).value();
  remove();
  kill_worker(shared_);
  ASSERT_TRUE(suspect_.wait_lost(3));
  put();
  ASSERT_TRUE(suspect_.wait_back(1));
  EXPECT_EQ(answer(*bad.backend, 1), 2);
  EXPECT_TRUE(comes_to(shared_, WorkerState::kRunning));
  EXPECT_EQ(own_.status().state, WorkerState::kIdle);
}

TEST_F(Suspect, HasTimeWhereItIsAlone) {
  Supervisor shared(cutting_after(200ms), steady_clock());
  const auto late = shared.load(fake("hang-without/" + file_), 1s, suspect_hooks()).value();
  remove();
  kill_worker(shared);
  ASSERT_TRUE(suspect_.wait_lost(2)) << "it is cut once";
  EXPECT_FALSE(within(800ms, [&] { return suspect_.lost() > 2; })) << suspect_.last().text;
  put();
  ASSERT_TRUE(suspect_.wait_back(1));
  EXPECT_EQ(answer(*late.backend, 1), 2);
}

TEST_F(Suspect, IsAloneWhereTheOthersAreUnloaded) {
  std::optional<runtime::Loaded> good;
  LevelHooks hooks = suspect_hooks();
  hooks.lost = [&, lost = hooks.lost](const Loss& loss) {
    if (suspect_.lost() == 1) good.reset();
    lost(loss);
  };
  const auto bad = shared_.load(fake("crash-without/" + file_), 1s, hooks).value();
  good = shared_.load(fake(), 1s, other_.hooks()).value();
  remove();
  kill_worker(shared_);
  ASSERT_TRUE(suspect_.wait_lost(2));
  put();
  ASSERT_TRUE(suspect_.wait_back(1));
  EXPECT_EQ(answer(*bad.backend, 1), 2);
  EXPECT_EQ(own_.status().state, WorkerState::kIdle);
}

TEST(Supervisor, AModelThatIsGoneIsNotLoadedAgain) {
  Supervisor supervisor(quick(), steady_clock());
  Level gone;
  Level stays;
  { const auto loaded = supervisor.load(fake(), 1s, gone.hooks()).value(); }
  const auto loaded = supervisor.load(fake(), 1s, stays.hooks()).value();
  kill_worker(supervisor);
  ASSERT_TRUE(stays.wait_back(1));
  EXPECT_EQ(gone.lost(), 0);
}

TEST(Supervisor, AWorkerInWhichNothingIsLoadedEndsAndALaterLoadMeetsAFreshOne) {
  Supervisor supervisor(quick(), steady_clock());
  EXPECT_FALSE(supervisor.load(fake("none"), 1s, {}));
  ASSERT_TRUE(comes_to(supervisor, WorkerState::kIdle));
  EXPECT_EQ(children(), 0U);
  EXPECT_FALSE(supervisor.status().last_fault);
  const auto loaded = supervisor.load(fake(), 1s, {}).value();
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  EXPECT_EQ(supervisor.status().restarts, 1U);
}

TEST(Supervisor, AWorkerThatDoesNotDieIsAbandonedUntilItDoes) {
  auto options = quick();
  options.ping_every = 10ms;
  options.ping_limit = 1s;
  options.kill_limit = 10ms;
  std::atomic<bool> immortal = true;
  options.worker.kill = [&](int pidfd) {
    if (!immortal) Process::sigkill(pidfd);
  };
  Supervisor supervisor(options, steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  const pid_t first = supervisor.status().pid.value();
  stop_process(first);
  ASSERT_TRUE(level.wait_back(1));
  EXPECT_EQ(level.last().cause, Loss::Cause::kHung);
  EXPECT_EQ(supervisor.status().abandoned, 1);
  EXPECT_NE(supervisor.status().pid, first);
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  immortal = false;
  kill(first, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return supervisor.status().abandoned == 0; }));
  EXPECT_EQ(children(), 1U);  // it was reaped
  EXPECT_EQ(level.lost(), 1);
}

TEST(Supervisor, AnAbandonedWorkerIsReapedWhileNothingIsLoaded) {
  auto options = quick();
  options.ping_every = 10ms;
  options.ping_limit = 1s;
  options.kill_limit = 10ms;
  options.worker.kill = [](int) {};
  Supervisor supervisor(options, steady_clock());
  Level level;
  pid_t pid = 0;
  {
    const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
    pid = supervisor.status().pid.value();
    stop_process(pid);
    ASSERT_TRUE(level.wait_back(1));
  }
  ASSERT_TRUE(comes_to(supervisor, WorkerState::kIdle));
  EXPECT_EQ(supervisor.status().abandoned, 1);
  kill(pid, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return supervisor.status().abandoned == 0; }));
  EXPECT_EQ(children(), 0U);
}

TEST(Supervisor, ALevelThatFailsToLoadAgainIsTriedUntilItDoes) {
  const std::string file = testing::TempDir() + "/gradus_level_" + std::to_string(getpid());
  std::ofstream(file).put('x');
  auto options = quick();
  options.restart.cap = 20ms;
  Supervisor supervisor(options, steady_clock());
  Level moody;
  Level steady;
  const auto one = supervisor.load(fake("if/" + file), 1s, moody.hooks()).value();
  const auto other = supervisor.load(fake(), 1s, steady.hooks()).value();
  std::filesystem::remove(file);
  kill_worker(supervisor);
  ASSERT_TRUE(steady.wait_back(1));
  EXPECT_EQ(moody.back(), 0);
  EXPECT_THAT(run(*one.backend, 1).error().message, HasSubstr("no device"));
  EXPECT_EQ(answer(*other.backend, 1), 2);
  std::ofstream(file).put('x');
  ASSERT_TRUE(moody.wait_back(1));
  EXPECT_EQ(answer(*one.backend, 1), 2);
  EXPECT_EQ(supervisor.status().restarts, 1U);  // in the same worker
  std::filesystem::remove(file);
}

// A level that can be loaded while its file is there, and says otherwise why it cannot be.
struct OnFile {
  OnFile(const std::string& name, const std::string& why)
      : path(testing::TempDir() + "/gradus_" + name + std::to_string(getpid())) {
    std::ofstream(path).put('x');
    std::ofstream(path + ".why") << why;
  }
  ~OnFile() {
    for (const char* end : {"", ".why", ".tries"}) std::filesystem::remove(path + end);
  }
  std::uintmax_t tries() const { return std::filesystem::file_size(path + ".tries"); }

  const std::string path;
};

TEST(Supervisor, AFaultOfTheConfigurationIsTriedOnceInAWorker) {
  const OnFile library("library", "libx.so: cannot open shared object file");
  const OnFile device("device", "no Vulkan device");
  auto options = quick();
  options.restart.cap = 2ms;
  Supervisor supervisor(options, steady_clock());
  Level configured;
  Level late;
  Level steady;
  const auto one = supervisor.load(fake("lib/" + library.path), 1s, configured.hooks()).value();
  const auto two = supervisor.load(fake("lib/" + device.path), 1s, late.hooks()).value();
  const auto three = supervisor.load(fake(), 1s, steady.hooks()).value();
  std::filesystem::remove(library.path);
  std::filesystem::remove(device.path);
  kill_worker(supervisor);
  ASSERT_TRUE(steady.wait_back(1) && configured.wait_lost(2));
  EXPECT_THAT(configured.last().text, HasSubstr("cannot open shared object file; not tried again"));
  std::ofstream(library.path).put('x');
  ASSERT_TRUE(comes_true([&] { return device.tries() > 6; }));
  EXPECT_EQ(library.tries(), 2U);
  EXPECT_EQ(late.lost(), 1);
  kill_worker(supervisor);
  ASSERT_TRUE(configured.wait_back(1)) << "another worker may do better";
}

TEST(Supervisor, AModelWhoseFileIsAnotherNowIsNotLoadedAgain) {
  const std::filesystem::path folder =
      testing::TempDir() + "/gradus_files_" + std::to_string(getpid());
  const auto put = [&](const std::string& name) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "fake:double").put('x');
    runtime::LoadSpec spec;
    spec.file = folder / name / "fake:double";
    return spec;
  };
  Supervisor supervisor(quick(), steady_clock());
  Level replaced;
  Level removed;
  Level kept;
  const runtime::LoadSpec spec = put("one");
  const auto one = supervisor.load(spec, 1s, replaced.hooks()).value();
  const auto two = supervisor.load(put("two"), 1s, removed.hooks()).value();
  auto three = supervisor.load(put("three"), 1s, kept.hooks()).value();
  std::filesystem::rename(spec.file, folder / "before");
  std::filesystem::rename(put("other").file, spec.file);
  std::filesystem::remove(folder / "two" / "fake:double");
  kill_worker(supervisor);
  ASSERT_TRUE(kept.wait_back(1) && replaced.wait_lost(2) && removed.wait_lost(2));
  EXPECT_THAT(replaced.last().text, HasSubstr("one/fake:double has changed since it was loaded"));
  EXPECT_THAT(removed.last().text, HasSubstr("two/fake:double is gone since it was loaded"));
  EXPECT_EQ(run(*one.backend, 1).error().code, Code::kNotFound);
  EXPECT_EQ(answer(*three.backend, 1), 2);
  EXPECT_EQ(answer(*supervisor.load(spec, 1s, {}).value().backend, 1), 2) << "loaded anew";

  three.backend.reset();
  kill_worker(supervisor);  // in the next one there is nothing to load
  ASSERT_TRUE(replaced.wait_lost(4) && comes_to(supervisor, WorkerState::kRunning));
  EXPECT_EQ(replaced.back() + removed.back(), 0);
  std::filesystem::rename(folder / "before", spec.file);
  ASSERT_TRUE(replaced.wait_back(1)) << "it is the old file again";
  EXPECT_EQ(answer(*one.backend, 1), 2);
  EXPECT_EQ(supervisor.status().restarts, 2U) << "no restarts in vain";
  EXPECT_EQ(replaced.lost(), 4) << "told once a worker";
  std::filesystem::remove_all(folder);
}

TEST(Supervisor, AModelWhoseWeightsAreOthersNowIsNotLoadedAgain) {
  const std::filesystem::path folder =
      testing::TempDir() + "/gradus_weights_" + std::to_string(getpid());
  std::filesystem::create_directories(folder / "data");
  const auto put = [&](const std::string& name) { std::ofstream(folder / name).put('x'); };
  put("fake:double");
  put("data/weights.bin");
  put("model.int8.onnx");
  runtime::LoadSpec spec;
  spec.file = folder / "fake:double";
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(spec, 1s, level.hooks()).value();
  put("notes");  // was not there: its weights are not in it
  std::ofstream(folder / "model.int8.onnx") << "another variant";
  kill_worker(supervisor);
  ASSERT_TRUE(level.wait_back(1)) << level.last().text;

  std::filesystem::rename(folder / "data" / "weights.bin", folder / "before");
  put("data/weights.bin");
  kill_worker(supervisor);
  ASSERT_TRUE(level.wait_lost(3));
  EXPECT_THAT(level.last().text, HasSubstr("data/weights.bin has changed since it was loaded"));
  EXPECT_EQ(run(*loaded.backend, 1).error().code, Code::kNotFound);
  std::filesystem::rename(folder / "before", folder / "data" / "weights.bin");
  ASSERT_TRUE(level.wait_back(2));
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  std::filesystem::remove_all(folder);
}

TEST(Supervisor, AnIdleWorkersMemoryIsGivenBack) {
  auto options = quick();
  options.ping_every = 1ms;
  options.trim_every = 1ms;
  Supervisor supervisor(options, steady_clock());
  const auto loaded = supervisor.load(fake(), 1s, {}).value();
  const std::size_t before = shared_mappings();
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
  EXPECT_TRUE(comes_true([&] { return shared_mappings() == before; }));
  EXPECT_EQ(answer(*loaded.backend, 1), 2);
}

TEST(Supervisor, StoppingEndsTheWorkerAndIsNoLoss) {
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  supervisor.stop();
  EXPECT_EQ(supervisor.status().state, WorkerState::kStopped);
  EXPECT_EQ(children(), 0U);
  EXPECT_EQ(level.lost(), 0);
  EXPECT_FALSE(run(*loaded.backend, 1));
  EXPECT_FALSE(supervisor.load(fake(), 1s, {}));
}

TEST(Supervisor, StoppingWaitsForNoAnswer) {
  auto options = quick();
  options.ping_every = 0ms;  // one waits always
  Supervisor supervisor(options, steady_clock());
  const auto loaded = supervisor.load(fake(), 1s, {}).value();
  const pid_t pid = supervisor.status().pid.value();
  stop_process(pid);
  const TimePoint begun = steady_clock().now();
  supervisor.stop();
  EXPECT_LT(steady_clock().now() - begun, 5s) << "10 s are what a ping may take";
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Supervisor, StoppingWaitsForNoWorkerThatStarts) {
  auto options = quick();
  options.worker = child("rogue-silent");
  Supervisor supervisor(options, steady_clock());
  std::jthread loader([&] { EXPECT_FALSE(supervisor.load(fake(), 1s, {})); });
  ASSERT_TRUE(comes_true([] { return children() > 0; }));
  const TimePoint begun = steady_clock().now();
  supervisor.stop();
  EXPECT_LT(steady_clock().now() - begun, 10s) << "30 s are what a start may take";
  EXPECT_EQ(children(), 0U);
}

TEST(Supervisor, AProgramThatDoesNotStartIsAReasonAndIsTriedAgain) {
  auto options = quick();
  options.worker.executable = "/nonexistent/gradus";
  Supervisor supervisor(options, steady_clock());
  EXPECT_THAT(supervisor.load(fake(), 1s, {}).error().message, HasSubstr("cannot start"));
  EXPECT_THAT(supervisor.load(fake(), 1s, {}).error().message, HasSubstr("cannot start"));
  EXPECT_GE(supervisor.status().restarts, 1U);
}

TEST(Supervisor, FiftyKillsInARowLeakNothing) {
  const int kills = std::getenv("GRADUS_LONG") != nullptr ? 1000 : 50;
  constexpr int kSettled = 10;  // after so many, allocators have what they need
  Supervisor supervisor(quick(), steady_clock());
  Level level;
  const auto loaded = supervisor.load(fake(), 1s, level.hooks()).value();
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  std::size_t memory = 0;
  for (int i = 1; i <= kills; ++i) {
    EXPECT_EQ(answer(*loaded.backend, static_cast<float>(i)), static_cast<float>(2 * i));
    kill_worker(supervisor);
    run(*loaded.backend, 1);  // told by the run, or by the supervisor before it
    ASSERT_TRUE(level.wait_back(i)) << i;
    if (i != kSettled) continue;
    descriptors = open_descriptors();
    mappings = shared_mappings();
    memory = resident_kib();
  }
  EXPECT_EQ(level.lost(), kills);
  EXPECT_EQ(supervisor.status().restarts, static_cast<std::uint32_t>(kills));
  EXPECT_LE(open_descriptors(), descriptors + 2);
  EXPECT_LE(shared_mappings(), mappings + 2);
  EXPECT_EQ(children(), 1U);  // the one that runs: no zombie
  // Sanitizers keep what was freed.
  if (!kSanitized) {
    EXPECT_LE(resident_kib(), memory + 2048);
  }
}

}  // namespace
}  // namespace gradus::worker
