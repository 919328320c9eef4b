// A ladder engine on fake levels: what each does, a test tells it.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "serving/ladder_engine.h"
#include "support/fake_backend.h"

namespace gradus::serving {

inline config::LevelConfig level_config(int number, std::string name, std::string provider) {
  config::LevelConfig level;
  level.level = number;
  level.name = name;
  level.file = name + ".onnx";
  level.providers = {{std::move(provider), {}}};
  level.keep = config::Keep::kAlways;
  return level;
}

// A model `m` with levels 0 gpu, 1 cpu, 2 small; each answers its own multiple of the input.
class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    for (int i = 0; i < 3; ++i) {
      levels_[i] = std::make_shared<support::FakeLevel>();
      levels_[i]->factor = static_cast<float>(i + 2);
    }
    config_.levels = {level_config(0, "gpu", "CUDAExecutionProvider"),
                      level_config(1, "cpu", "CPUExecutionProvider"),
                      level_config(2, "small", "CPUExecutionProvider")};
    config_.policy.probe_every = std::chrono::hours(1);  // runs are counted, however long they take
  }

  void start(std::size_t max_queue = 64) {
    std::vector<ModelFolder> folders(1);
    folders[0].name = "broken";
    folders[0].faults = {"broken/gradus.yaml: levels = 7: must be a list"};
    for (const std::string& name : names_) {
      ModelFolder& folder = folders.emplace_back();
      folder.name = name;
      folder.versions.push_back({.number = 1, .files = {}, .config = config_, .faults = {}});
    }
    engine_ = std::make_unique<LadderEngine>(
        std::move(folders), std::nullopt, config::ServerConfig{},
        [this](const runtime::LoadSpec& spec) { return load(spec); },
        LadderEngine::Options{.cpus = cpus_, .queue = {.entries = max_queue}}, *clock_, pool_);
  }
  void start_and_load(std::size_t max_queue = 64) {
    start(max_queue);
    wait_for([this] { return !engine_->loading(); });
  }

  Result<runtime::Loaded> load(const runtime::LoadSpec& spec) {
    for (const config::LevelConfig& level : config_.levels) {
      if (spec.file.filename() != level.file) continue;
      if (const auto before = before_load_.find(level.level); before != before_load_.end()) {
        before->second();
      }
      const auto reason = load_errors_.find(level.level);
      if (reason != load_errors_.end()) return fail(Code::kUnavailable, reason->second);
      if (!spec.device_ids.empty() && missing_devices_.contains(spec.device_ids[0])) {
        return fail(Code::kUnavailable, "no such device");
      }
      runtime::Loaded loaded;
      loaded.backend = std::make_unique<support::FakeBackend>(levels_[level.level]);
      loaded.provider_used = level.providers[0].name;
      loaded.node_share = 1;
      return loaded;
    }
    return fail(Code::kNotFound, spec.file.string());
  }

  static void wait_for(const std::function<bool()>& condition) {
    const TimePoint limit = steady_clock().now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(steady_clock().now(), limit) << "waited too long";
      std::this_thread::yield();
    }
  }

  static Request request() {
    static const float kThree = 3;
    Request made;
    made.model = "m";
    made.id = "42";
    made.inputs = {{"x", {DType::kFp32, {1}, std::as_bytes(std::span(&kThree, 1))}}};
    made.arrival = steady_clock().now();
    return made;
  }
  std::future<Result<Response>> send(Request asked) {
    auto promise = std::make_shared<std::promise<Result<Response>>>();
    engine_->infer(std::move(asked),
                   [promise](Result<Response> result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  Result<Response> infer(Request asked = request()) { return send(std::move(asked)).get(); }

  static float value(const Response& response) {
    float read = 0;
    std::memcpy(&read, response.outputs.at(0).tensor.data.data(), sizeof read);
    return read;
  }

  std::map<int, std::shared_ptr<support::FakeLevel>> levels_;
  std::map<int, std::function<void()>> before_load_;
  std::map<int, std::string> load_errors_;
  std::set<int> missing_devices_;
  config::ModelConfig config_;
  std::vector<std::string> names_{"m"};  // models of this configuration, on the same fake levels
  int cpus_ = 2;
  const Clock* clock_ = &steady_clock();  // the engine's
  worker::SharedPool pool_{{.shared = false}};
  std::unique_ptr<LadderEngine> engine_;  // last: its threads use the rest
};

/// Holds runs until it is opened.
class Gate {
 public:
  std::function<Result<void>()> wait() const {
    return [opened = opened_] {
      opened.wait();
      return Result<void>();
    };
  }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

}  // namespace gradus::serving
