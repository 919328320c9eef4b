// What the fault provider's tests share: a control file of each test's own, the provider registered
// from its library as any vendor's is, a model on it.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fault_ep/control.h"
#include "runtime/sample_inputs.h"
#include "unit/runtime/fixture.h"

namespace gradus::fault {

using namespace std::chrono_literals;
using runtime::Backend;
using runtime::LoadSpec;
using runtime::OrtRuntime;

constexpr const char* kFaultProvider = "FaultExecutionProvider";
constexpr const char* kVariable = "GRADUS_FAULT_CONTROL";

inline std::string fashion() { return runtime::demo("models/fashion/1/model.onnx"); }

/// True as soon as `check` is; false when it is not within the limit.
template <class Check>
bool eventually(Check check, Duration limit = 30s) {
  const TimePoint end = steady_clock().now() + limit;
  while (!check()) {
    if (steady_clock().now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class FaultTest : public ::testing::Test {
 protected:
  FaultTest() { setenv(kVariable, path_.c_str(), 1); }
  ~FaultTest() override {
    unsetenv(kVariable);
    std::filesystem::remove(path_);
  }

  static std::string temporary(const std::string& name) {
    return ::testing::TempDir() + "fault_ep_" + std::to_string(getpid()) + "_" + name;
  }

  static Control created(const std::string& path) {
    auto made = Control::create(path);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }

  /// Registers the library; its devices are those of the control file at this moment.
  static std::unique_ptr<OrtRuntime> registered() {
    return runtime::make_runtime({.provider_libraries = {{kFaultProvider, GRADUS_FAULT_LIBRARY}}});
  }

  static LoadSpec spec(const std::string& file = fashion(), std::vector<int> device_ids = {}) {
    LoadSpec made = runtime::on({{kFaultProvider, {}}}, file);
    made.device_ids = std::move(device_ids);
    return made;
  }

  static std::unique_ptr<Backend> loaded(const OrtRuntime& runtime, const LoadSpec& spec) {
    auto made = runtime.load(spec);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(made->backend);
  }

  /// Why the load fails; empty if it does not.
  static std::string why_not(const OrtRuntime& runtime, const LoadSpec& spec) {
    const auto made = runtime.load(spec);
    return made ? std::string() : made.error().message;
  }

  /// Every output's bytes, of a run with made-up inputs of `size`.
  static Result<std::vector<std::vector<std::byte>>> outputs(Backend& backend,
                                                             std::int64_t size = 24) {
    const auto inputs = runtime::sample_inputs(backend.signature(), size);
    return runtime::run_all(backend, runtime::views_of(inputs)).map([](const auto& tensors) {
      std::vector<std::vector<std::byte>> bytes;
      for (const Tensor& tensor : tensors)
        bytes.emplace_back(tensor.data.begin(), tensor.data.end());
      return bytes;
    });
  }

  /// Empty if the run went well.
  static std::string error_of_run(Backend& backend) {
    const auto run = outputs(backend);
    return run ? std::string() : run.error().message;
  }

  void order(Place place, const Order& order) {
    const auto ok = control_.order(place, order);
    ASSERT_TRUE(ok) << ok.error().message;
  }

  const std::string path_ = temporary("control");
  Control control_ = created(path_);
};

}  // namespace gradus::fault
