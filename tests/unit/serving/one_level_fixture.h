// An engine with one level that runs one batch at a time, whose runs a test can hold.
#pragma once
#include "unit/serving/engine_fixture.h"

namespace gradus::serving {

class OneLevelTest : public EngineTest {
 protected:
  // One level with one instance, whose runs are never done on the caller's thread.
  void one_level(std::uint32_t max_batch, std::uint32_t max_queue = 0,
                 config::Join join = config::Join::kAlways) {
    config::LevelConfig level = level_config(1, "cpu", "CPUExecutionProvider");
    level.instances = 1;
    level.isolation = config::Isolation::kProcess;
    level.max_batch_size = max_batch;
    level.join = join;  // mostly what pays on this machine is not the matter here
    config_.levels = {level};
    config_.max_queue_size = max_queue;
    start_and_load();
    loaded_ = levels_[1]->batches().size();
  }

  // Requests run from now on when the gate is opened; returns when one of them runs.
  std::future<Result<Response>> hold(Gate& gate) {
    levels_[1]->before = gate.wait();
    const int before = levels_[1]->runs;
    auto held = send(request());
    wait_for([&] { return levels_[1]->runs == before + 1; });
    return held;
  }

  std::vector<std::int64_t> batches() const {
    auto all = levels_.at(1)->batches();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(loaded_));
    return all;
  }

  static Request many(std::span<const float> values) {
    Request made = request();
    made.inputs = {
        {"x", {DType::kFp32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values)}}};
    return made;
  }

  std::size_t loaded_ = 0;  // runs before the first request
};

}  // namespace gradus::serving
