// Nothing is lost, answered twice or run too late, whatever comes at once: arrivals of all tiers,
// deadlines that pass while waiting, clients that leave, failing levels, full queues, and the model
// loaded anew meanwhile.
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>

#include "unit/serving/engine_fixture.h"

namespace gradus::serving {
namespace {

using namespace std::chrono_literals;

constexpr int kSenders = 4;
constexpr int kEach = 150;
constexpr Duration kRun = 4ms;     // with 16 waiting, much longer than the shortest deadlines
constexpr Duration kSlack = 30ms;  // from leaving the queue to the run, on a busy machine
constexpr float kFirst = 1000;     // the first request's value; what warms a level up is less

struct Asked {
  float value = 0;
  TimePoint deadline{};
  std::atomic<int> answers{0};
  std::atomic<bool> ok{false};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> right{false};
};

class RandomTrafficTest : public EngineTest {
 protected:
  RandomTrafficTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gradus-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~RandomTrafficTest() override {
    engine_.reset();
    std::filesystem::remove_all(root_);
  }

  // The fake levels of `config_`, in a repository that only says which versions there are.
  void start_from_repository(std::size_t max_queue) {
    config::ServerConfig server;
    server.model_repositories = {root_.string()};
    server.model_control_mode = config::ModelControl::kExplicit;
    server.load_models = {"m"};
    change(1);
    const Repository repository(server, [this](const ConfigSource&, const config::ServerConfig&) {
      return config::Loaded<config::ModelConfig>(config_);
    });
    auto folders = repository.scan();
    ASSERT_TRUE(folders);
    engine_ = std::make_unique<LadderEngine>(
        std::move(*folders), repository, server,
        [this](const runtime::LoadSpec& spec) { return load(spec); },
        LadderEngine::Options{.cpus = 2, .queue = {.entries = max_queue}}, steady_clock(), pool_);
    wait_for([this] { return !engine_->loading(); });
  }
  // A version that is new, or not what it was.
  void change(int version) {
    const auto folder = root_ / "m" / std::to_string(version);
    std::filesystem::create_directories(folder);
    for (const config::LevelConfig& level : config_.levels) {
      std::ofstream(folder / level.file, std::ios::app).put('x');
    }
  }
  Result<void> load_anew() {
    std::promise<Result<void>> promise;
    engine_->load({"m", {}, {}}, [&](Result<void> done) { promise.set_value(std::move(done)); });
    return promise.get_future().get();
  }

  // Each run takes a little and fails now and then; none begins after the deadline of one of its
  // requests.
  void misbehave(int level, double failing, std::vector<Asked>& asked, std::atomic<int>& too_late) {
    levels_[level]->before_values =
        [&asked, &too_late, failing, random = std::make_shared<std::mt19937>(level),
         mutex = std::make_shared<std::mutex>()](std::span<const float> values) -> Result<void> {
      if (values[0] < kFirst) return {};
      const TimePoint now = steady_clock().now();
      for (const float value : values) {
        const auto index = static_cast<std::size_t>(value - kFirst);
        if (index < asked.size() && now > asked[index].deadline + kSlack) ++too_late;
      }
      double chance = 0;
      {
        const std::lock_guard lock(*mutex);
        chance = std::uniform_real_distribution<>(0, 1)(*random);
      }
      const TimePoint until = now + kRun;
      while (steady_clock().now() < until) std::this_thread::yield();
      if (chance < failing / 2) return fail(Code::kUnavailable, "device lost");
      if (chance < failing) return fail(Code::kWorkerLost, "worker 7 was killed by signal 9");
      return {};
    };
  }

  std::filesystem::path root_;
};

TEST_F(RandomTrafficTest, EveryRequestIsAnsweredOnceAndNoneIsRunAfterItsDeadline) {
  config_.levels = {level_config(0, "gpu", "CUDAExecutionProvider"),
                    level_config(1, "cpu", "CPUExecutionProvider"),
                    level_config(2, "small", "CPUExecutionProvider")};
  config_.levels[0].max_batch_size = 8;
  config_.levels[0].max_queue_delay = 200us;
  config_.levels[1].max_batch_size = 4;
  start_from_repository(16);
  std::vector<Asked> asked(kSenders * kEach);
  std::atomic<int> too_late{0};
  misbehave(0, 0.3, asked, too_late);
  misbehave(1, 0.1, asked, too_late);
  misbehave(2, 0, asked, too_late);

  std::atomic<int> answered{0};
  std::atomic<bool> over{false};
  int loads = 0;
  std::jthread loader([&] {  // every second time the same version
    for (int i = 2; !over; ++i) {
      change(i / 2);
      const auto done = load_anew();
      EXPECT_TRUE(done) << done.error().message;
      ++loads;
      wait_for([&, enough = answered + 20] { return over || answered >= enough; });
    }
  });
  {
    std::vector<std::jthread> senders;
    for (int sender = 0; sender < kSenders; ++sender) {
      senders.emplace_back([&, sender] {
        std::mt19937 random(static_cast<unsigned>(sender) + 100);
        std::vector<Ticket> tickets;
        for (int i = 0; i < kEach; ++i) {
          const auto index = static_cast<std::size_t>(sender * kEach + i);
          Asked& one = asked[index];
          one.value = kFirst + static_cast<float>(index);
          Request made = request();
          made.inputs = {{"x", {DType::kFp32, {1}, std::as_bytes(std::span(&one.value, 1))}}};
          made.tier = static_cast<config::Tier>(random() % config::kTiers);
          made.timeout = random() % 4 == 0 ? Duration(1ms + random() % 4 * 1ms) : Duration(30s);
          one.deadline = made.arrival + *made.timeout;
          const Ticket ticket =
              engine_->infer(std::move(made), [&one, &answered](const Result<Response>& result) {
                ++one.answers;
                one.ok = result.has_value();
                one.cancelled = !result && result.error().code == Code::kCancelled;
                if (result) {
                  const float factor = static_cast<float>(result->origin.level + 2);
                  one.right = value(*result) == factor * one.value;
                }
                ++answered;
              });
          tickets.push_back(ticket);
          if (random() % 6 == 0) {  // waiting, running or answered
            const auto left = tickets[random() % tickets.size()].lock();
            if (left) left->cancel();
          }
          if (random() % 8 == 0) std::this_thread::sleep_for(1ms);
        }
      });
    }
  }
  wait_for([&] { return answered == kSenders * kEach; });
  over = true;
  loader.join();
  EXPECT_GT(loads, 4);
  engine_.reset();  // nothing comes afterwards
  int good = 0;
  int cancelled = 0;
  for (const Asked& one : asked) {
    EXPECT_EQ(one.answers, 1);
    EXPECT_EQ(one.ok, one.right) << "request " << one.value << " got another's answer";
    good += one.ok ? 1 : 0;
    cancelled += one.cancelled ? 1 : 0;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(too_late, 0);
  EXPECT_GT(good, kSenders * kEach / 10);
}

TEST_F(RandomTrafficTest, WhatStillWaitsWhenTheEngineEndsIsAnsweredToo) {
  for (int round = 0; round < 10; ++round) {
    start_and_load(1000);
    Gate gate;
    for (int i = 0; i < 3; ++i) {
      levels_[i]->before = [wait = gate.wait(), i] {
        const auto opened = wait();
        return i < 2 ? Result<void>(fail(Code::kUnavailable, "device lost")) : opened;
      };
    }
    std::vector<std::future<Result<Response>>> answers;
    for (int i = 0; i < 50; ++i) answers.push_back(send(request()));
    std::jthread opener([&] { gate.open(); });
    engine_.reset();
    for (auto& answer : answers) {
      ASSERT_EQ(answer.wait_for(10s), std::future_status::ready);
      answer.get();
    }
    for (int i = 0; i < 3; ++i) levels_[i]->before = [] { return Result<void>(); };
  }
}

}  // namespace
}  // namespace gradus::serving
